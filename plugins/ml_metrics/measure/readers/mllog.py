"""MLPerf's MLLOG lines, `:::MLLOG {...}`, anywhere in a log.

:::MLLOG {"key": "seed", "value": 7, "time_ms": 1790000000000, "event_type": "POINT_IN_TIME", "metadata": {}}
:::MLLOG {"key": "run_start", "value": null, "time_ms": 1790000000100, "event_type": "INTERVAL_START", ...}
:::MLLOG {"key": "eval_accuracy", "value": 0.75, ..., "metadata": {"epoch_num": 4}}
:::MLLOG {"key": "run_stop", ..., "event_type": "INTERVAL_END", "metadata": {"status": "success"}}
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from ml_metrics.core.kinds import LOWER
from ml_metrics.core.model import Stated
from ml_metrics.measure.points import step_of
from ml_metrics.measure.readers.format import Format, keys_of, value_of

if TYPE_CHECKING:
    from ml_metrics.measure.readers.format import Beginning
    from ml_metrics.measure.readings import Readings


TOKEN = b":::MLLOG"
STEPS = ("step", "step_num", "samples_count", "epoch_num", "epoch_count", "block_num", "first_epoch_num")
"""The fields of the metadata that are the step of a point, the first choice first."""
RUN = "run"
MAX_OPEN = 1_000
"""How many kinds of intervals may be open at once."""


def is_mllog(file: Beginning) -> bool:
    return any(TOKEN in line and b'"key"' in line and b'"time_ms"' in line for line in file.head.split(b"\n"))


def read(found: Readings) -> None:
    """Read values with a step as points, others as descriptions of the run, and the durations of intervals."""
    lines = found.lines
    lines.check = _check
    starts: dict[str, float] = {}
    counts: dict[str, int] = {}
    for block in lines.blocks():
        texts = [_behind_token(line) for line in block.split(b"\n")]
        objects = b"\n".join(text if text.startswith(b"{") else b"" for text in texts)
        for event in lines.objects(objects, " behind the token"):
            key, time, kind = event.get("key"), value_of(event.get("time_ms")), event.get("event_type")
            if not isinstance(key, str) or time is None or not math.isfinite(time):
                lines.reject("an event without key and time_ms", event)
                continue
            metadata = keys_of(event, "metadata")
            if kind == "INTERVAL_START":
                if key.endswith("_start") and len(starts) < MAX_OPEN:
                    starts[key.removesuffix("_start")] = time
            elif kind != "INTERVAL_END":
                _add_value(found, key, event.get("value"), _step(metadata), time / 1e3)
            elif (start := starts.pop(name := key.removesuffix("_stop"), None)) is not None:
                seconds, aborted = (time - start) / 1e3, name == RUN and metadata.get("status") != "success"
                if aborted:
                    lines.warn("the run was aborted: time_to_train is not a finite number")
                number, step = counts.get(name, -1) + 1, _step(metadata)
                counts[name] = number
                found.add(
                    "time_to_train" if name == RUN else f"{name}/seconds",
                    [math.nan if aborted else seconds],
                    Stated("s", LOWER),
                    step=0 if name == RUN else number if step is None else step,
                    time=time / 1e3,
                )
    if RUN in starts:
        lines.warn("the run has a start and no stop: it was cut off, and has no time_to_train")


def _step(metadata: dict[str, Any]) -> int | None:
    for name in STEPS:
        if name in metadata and (step := step_of(metadata[name])) is not None:
            return step
    return None


def _behind_token(line: bytes) -> bytes:
    return line.partition(TOKEN)[2].lstrip(b" :")


def _check(rest: bytes) -> None:
    """Raise ValueError for a last line without a line end whose object is incomplete."""
    if TOKEN in rest:
        json.loads(_behind_token(rest))


def _add_value(found: Readings, key: str, value: Any, step: int | None, time: float) -> None:
    values = [(f"{key}/{inner}", one) for inner, one in value.items()] if isinstance(value, dict) else [(key, value)]
    for name, content in values:
        number = value_of(content)
        if step is None and name.startswith("result_") and number is not None and content is not None:
            found.add(name, [number])  # of MLPerf Inference
        elif step is None or content is None:
            found.describe(f"mllog/{name}", content)
        elif number is not None:
            found.point(name, step, time, number)
        elif not isinstance(content, str | bool):
            found.lines.reject("a value is not a number", content)


FORMAT = Format("mllog", (TOKEN,), read, is_mllog)
