"""Megatron-LM: `iteration 10/ 100 | ... | elapsed time per iteration (ms): 812.3 | ... | lm loss: 1.05E+01 | ... |`."""

from __future__ import annotations

from ml_metrics.measure.readers.log_profile import (
    GRAD_NORM,
    LEARNING_RATE,
    LOSS,
    STEP_TIME,
    TFLOPS,
    TOKENS,
    Profile,
    Reading,
    named,
    whole,
)

MARK, LAST, END = "iteration ", "number of nan iterations", "|"
NAMES = {
    "elapsed time per iteration (ms)": (STEP_TIME, 1e-3),
    "throughput per GPU (TFLOP/s/GPU)": (TFLOPS, 1.0),
    "TFLOPs": (TFLOPS, 1.0),
    "tokens per gpu per second (tgs)": (TOKENS, 1.0),
    "tokens per GPU (tokens/s/GPU)": (TOKENS, 1.0),
    "lm loss": (LOSS, 1.0),
    "lm-loss": (LOSS, 1.0),
    "grad norm": (GRAD_NORM, 1.0),
    "learning rate": (LEARNING_RATE, 1.0),
    "consumed samples": ("consumed_samples", 1.0),
    "number of skipped iterations": ("skipped_iterations", 1.0),
    "number of nan iterations": ("nan_iterations", 1.0),
}


def read(line: str) -> Reading | None:
    """Read a line that ends with its last separator, or goes on behind its last field, as Primus does."""
    _, mark, rest = line.partition(MARK)
    if not mark:
        return None
    first, *others = rest.split(" | ")
    if not rest.rstrip().endswith(END):
        others = others[:-1]  # it may be cut
        if not any(LAST in one for one in others):
            return None
    step = whole(first.partition("/")[0])
    pairs = {}
    for pair in others:
        name, colon, value = pair.partition(":")
        if colon:
            pairs[name.strip()] = value.strip(" |")
    values = named(pairs, NAMES)
    return Reading(step, values) if step is not None and STEP_TIME in values else None


PROFILE = Profile(
    "megatron",
    "Megatron-LM, Megatron-DeepSpeed and Primus",
    (b"elapsed time per iteration (ms)",),
    lambda: read,
    {
        " [2026-08-22 10:00:00.000000] iteration       10/     100 | consumed samples:          160 | elapsed time "
        "per iteration (ms): 812.3 | throughput per GPU (TFLOP/s/GPU): 412.0 | learning rate: 1.0E-04 | global batch "
        "size:    16 | lm loss: 1.05E+01 | loss scale: 1.0 | grad norm: 2.1 | number of skipped iterations:   0 | "
        "number of nan iterations:   0 |": Reading(
            10,
            {
                STEP_TIME: 812.3 * 1e-3, TFLOPS: 412.0, LOSS: 10.5, GRAD_NORM: 2.1, LEARNING_RATE: 1e-4,
                "skipped_iterations": 0, "nan_iterations": 0, "consumed_samples": 160,
            },
        ),
        "[rank-7/8][DEBUG] [utils.py:425] : iteration        1/      10 | consumed samples:        8 | elapsed time "
        "per iteration (ms): 432.6/441.0 | lm loss: 9.2E+00 | number of nan iterations:   0 | hip mem "
        "usage/free/total/usage_ratio: 134.62GB/153.37GB/287.98GB/46.74%": Reading(
            1, {"consumed_samples": 8, STEP_TIME: 432.6 * 1e-3, LOSS: 9.2, "nan_iterations": 0}
        ),
    },
)  # fmt: skip
