"""MaxText: `completed step: 12, seconds: 2.167, TFLOP/s/device: 36.722, ..., loss: 2.191`."""

from __future__ import annotations

from ml_metrics.measure.readers.log_profile import LOSS, STEP_TIME, TFLOPS, TOKENS, Profile, Reading, named, whole

MARK = "completed step: "
NAMES = {
    "seconds": (STEP_TIME, 1.0),
    "TFLOP/s/device": (TFLOPS, 1.0),
    "Tokens/s/device": (TOKENS, 1.0),
    "loss": (LOSS, 1.0),
    "lm_loss": ("lm_loss", 1.0),
    "perplexity": ("perplexity", 1.0),
    "reward_accuracy": ("reward_accuracy", 1.0),
    "moe_lb_loss": ("moe_lb_loss", 1.0),
    "total_weights": ("total_weights", 1.0),
}


def read(line: str) -> Reading | None:
    """Read a line that holds its step, its time and its loss: a line that was cut lacks the last of them."""
    _, mark, rest = line.partition(MARK)
    if not mark:
        return None
    first, *others = rest.split(", ")
    step = whole(first)
    pairs = dict(pair.split(": ", 1) for pair in others if ": " in pair)
    values = named(pairs, NAMES)
    return Reading(step, values) if step is not None and LOSS in values and STEP_TIME in values else None


PROFILE = Profile(
    "maxtext",
    "MaxText",
    (MARK.encode(),),
    lambda: read,
    {
        "I0822 10:00:00.123456 1234 metric_logger.py:200] completed step: 12, seconds: 2.167, TFLOP/s/device: 36.722, "
        "Tokens/s/device: 1,890.321, total_weights: 4096, loss: 2.191": Reading(
            12, {STEP_TIME: 2.167, TFLOPS: 36.722, TOKENS: 1890.321, "total_weights": 4096, LOSS: 2.191}
        ),
    },
)
