"""torchtitan: `step:  1  loss:  8.13  grad_norm:  1.4  memory: 10.2GiB(12.9%)  tps: 7,033  ...  mfu: 16.7%`."""

from __future__ import annotations

from ml_metrics.measure.readers.log_profile import GRAD_NORM, LOSS, MFU, TFLOPS, TOKENS, Profile, Reading, named, whole

NAMES = {
    "loss": (LOSS, 1.0),
    "grad_norm": (GRAD_NORM, 1.0),
    "memory": ("memory_gib", 1.0),
    "tps": (TOKENS, 1.0),
    "tflops": (TFLOPS, 1.0),
    "mfu": (MFU, 1.0),
}
LAST = "mfu"


def read(line: str) -> Reading | None:
    """Read a line of training with its last field. A line of validation looks alike, and has another beginning."""
    before, mark, rest = line.partition("step:")
    if not mark or before.rstrip().endswith("validate"):
        return None
    words = rest.split()
    pairs = {name.removesuffix(":"): value for name, value in zip(words[1::2], words[2::2], strict=False)}
    if not words or LAST not in pairs or not pairs[LAST].endswith(("%", "N/A")):
        return None
    pairs["memory"] = pairs.get("memory", "").partition("GiB")[0]
    step, values = whole(words[0]), named(pairs, NAMES)
    return Reading(step, values) if step is not None and LOSS in values else None


PROFILE = Profile(
    "torchtitan",
    "torchtitan",
    (b"tps:",),
    lambda: read,
    {
        "[titan] 2026-01-01 10:00:00,000 - root - INFO - \x1b[31mstep:  1  \x1b[32mloss:  8.1309  "
        "\x1b[38;2;180;60;0mgrad_norm:  inf  \x1b[36mmemory: 10.25GiB(12.9%)  \x1b[34mtps: 7,033  \x1b[35mtflops: "
        "1,017.62  \x1b[36mmfu: N/A\x1b[0m": Reading(
            1, {LOSS: 8.1309, GRAD_NORM: float("inf"), "memory_gib": 10.25, TOKENS: 7033, TFLOPS: 1017.62}
        ),
    },
)
