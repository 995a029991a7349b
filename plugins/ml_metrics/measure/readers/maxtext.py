"""MaxText: `completed step: 12, seconds: 2.167, TFLOP/s/device: 36.722, ..., loss: 2.191`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ml_metrics.measure.readers.log_profile import (
    LOSS,
    STEP_TIME,
    TFLOPS,
    TOKENS,
    Columns,
    Parser,
    Profile,
    Reading,
    named,
    named_numbers,
    named_parts,
    parts_of,
    steps,
    whole,
)

if TYPE_CHECKING:
    import pyarrow as pa


MARK = "completed step: "
NAMES = {
    "seconds": (STEP_TIME, 1.0),
    "TFLOP/s/device": (TFLOPS, 1.0),
    "Tokens/s/device": (TOKENS, 1.0),
    "loss": (LOSS, 1.0),
    "lm_loss": ("lm_loss", 1.0),
    "perplexity": ("perplexity", 1.0),
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


def columns(lines: pa.StringArray) -> Columns | None:
    """Read lines with the same fields."""
    halves = parts_of(lines, MARK, 2)
    parts = parts_of(halves[1], ", ") if halves else None
    texts = named_parts(parts[1:], ": ") if parts else None
    step = steps(parts[0]) if parts else None
    values = named_numbers(texts, NAMES) if texts is not None else None
    return Columns(step, values) if step is not None and values and {LOSS, STEP_TIME} <= values.keys() else None


PROFILE = Profile(
    "maxtext",
    "MaxText",
    (MARK.encode(),),
    lambda: Parser(read, columns),
    {
        "I0822 10:00:00.123456 1234 metric_logger.py:200] completed step: 12, seconds: 2.167, TFLOP/s/device: 36.722, "
        "Tokens/s/device: 1,890.321, total_weights: 4096, loss: 2.191": Reading(
            12, {STEP_TIME: 2.167, TFLOPS: 36.722, TOKENS: 1890.321, "total_weights": 4096, LOSS: 2.191}
        ),
    },
)
