"""MLPerf's MLLOG lines, `:::MLLOG {...}`, anywhere in a log."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ml_metrics.core.kinds import LOWER
from ml_metrics.core.model import Stated
from ml_metrics.measure.points import step_of
from ml_metrics.measure.readers.format import Format, value_of

if TYPE_CHECKING:
    from ml_metrics.measure.readers.format import Beginning, Readings


TOKEN = b":::MLLOG"
POINT_IN_TIME = "POINT_IN_TIME"
STEPS = ("step", "step_num", "samples_count", "epoch_num", "epoch_count", "block_num", "first_epoch_num")
"""The fields of the metadata that are the step of a point, the first choice first."""
START, STOP = "_start", "_stop"
RUN, STATUS, SUCCESS = "run", "status", "success"
RESULT = "result_"
"""What MLPerf Inference measured, without a step."""
TIME_TO_TRAIN = "time_to_train"
SECONDS = Stated("s", LOWER)
MAX_OPEN = 1_000
"""How many kinds of intervals may be open at once."""


def claims(file: Beginning) -> bool:
    return any(TOKEN in line and b'"key"' in line and b'"time_ms"' in line for line in file.head.split(b"\n"))


@dataclass(slots=True)
class _Intervals:
    """The starts of intervals that have not ended, and the values of series so far."""

    starts: dict[str, float] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)


def read(found: Readings) -> None:
    """Read values with a step as points, others as descriptions of the run, and the durations of intervals."""
    intervals = _Intervals()

    found.lines.check = _check
    for block in found.lines.blocks():
        texts = [_behind_token(line) for line in block.split(b"\n")]
        objects = b"\n".join(text if text.startswith(b"{") else b"" for text in texts)
        for event in found.lines.objects(objects, " behind the token"):
            _add(found, intervals, event)
    if RUN in intervals.starts:
        found.lines.warn("the run has a start and no stop: it was cut off, and has no time_to_train")


def _behind_token(line: bytes) -> bytes:
    return line.partition(TOKEN)[2].lstrip(b" :")


def _check(rest: bytes) -> None:
    """Raise ValueError for a last line without a line end whose object is incomplete."""
    if TOKEN in rest:
        json.loads(_behind_token(rest))


def _add(found: Readings, intervals: _Intervals, event: dict[str, Any]) -> None:
    key, time = event.get("key"), value_of(event.get("time_ms"))
    if not isinstance(key, str) or time is None or not math.isfinite(time):
        found.lines.reject("an event without key and time_ms", event)
        return
    metadata = event.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    kind = event.get("event_type")
    if kind == "INTERVAL_START":
        _start(intervals, key, time)
    elif kind == "INTERVAL_END":
        _stop(found, intervals, key, time, metadata)
    else:
        _point(found, key, event.get("value"), metadata, time / 1e3)


def _start(intervals: _Intervals, key: str, time: float) -> None:
    if key.endswith(START) and len(intervals.starts) < MAX_OPEN:
        intervals.starts[key.removesuffix(START)] = time


def _stop(found: Readings, intervals: _Intervals, key: str, time: float, metadata: dict[str, Any]) -> None:
    name = key.removesuffix(STOP)
    start = intervals.starts.pop(name, None)
    if start is None:
        return
    seconds = (time - start) / 1e3
    if name == RUN:
        if metadata.get(STATUS) != SUCCESS:
            found.lines.warn("the run was aborted: time_to_train is not a finite number")
            seconds = math.nan
        found.add(TIME_TO_TRAIN, [seconds], SECONDS, step=0, time=time / 1e3)
    else:
        number = intervals.counts[name] = intervals.counts.get(name, -1) + 1
        step = _step(metadata)
        found.add(f"{name}/seconds", [seconds], SECONDS, step=number if step is None else step, time=time / 1e3)


def _point(found: Readings, key: str, value: Any, metadata: dict[str, Any], time: float) -> None:
    step = _step(metadata)
    for name, content in (
        ((f"{key}/{inner}", one) for inner, one in value.items()) if isinstance(value, dict) else ((key, value),)
    ):
        number = value_of(content)
        if step is None and name.startswith(RESULT) and number is not None and content is not None:
            found.add(name, [number])
        elif step is None or content is None:
            found.describe(f"mllog/{name}", content)
        elif number is None:
            if not isinstance(content, str | bool):
                found.lines.reject("a value is not a number", content)
        else:
            found.point(name, step, time, number)


def _step(metadata: dict[str, Any]) -> int | None:
    for name in STEPS:
        step = step_of(metadata.get(name))
        if step is not None:
            return step
    return None


FORMAT = Format(
    "mllog",
    "MLPerf logging: `:::MLLOG` lines, in any log; MLPerf Inference's `mlperf_log_detail.txt`",
    "`<key>` for values with a step, epoch or number of samples; `<key>/<field>` for objects such as `tracked_stats`; "
    "`time_to_train`, `epoch/seconds`, `eval/seconds`, ... for intervals; `result_...` of MLPerf Inference",
    "Values without a step, such as `seed` and `global_batch_size`, describe the run. A run that was aborted has a "
    "`time_to_train` that is not a finite number; one without an end has none, with a warning.",
    claims,
    read,
    (TOKEN,),
)
