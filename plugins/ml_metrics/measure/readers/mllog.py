"""MLPerf's MLLOG lines, `:::MLLOG {...}`, anywhere in a log."""

from __future__ import annotations

import math
from array import array
from dataclasses import dataclass, field
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from ml_metrics.core.kinds import LOWER
from ml_metrics.core.model import Stated
from ml_metrics.measure.lines import InPieces, is_utf8, may_be_nested
from ml_metrics.measure.points import step_of
from ml_metrics.measure.readers.format import Format, check_marked, marked_objects, value_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ml_metrics.measure.readers.format import Beginning, Readings


PREFIX = b":::MLLOG "


def add_events(found: Readings, block: bytes, steps: tuple[str, ...], kind: str) -> bool:
    """Add a block. Return False, with nothing added, if a line is something else than a number at a step."""
    events = _events(block, steps, kind, found.allowance.limits.json_nesting)
    step = _steps(events, steps) if events else None
    if step is None:
        return False
    keys = [one.key for one in events]
    names = list(dict.fromkeys(keys))
    index = {name: number for number, name in enumerate(names)}
    group = np.zeros(len(keys), np.int64) if len(names) == 1 else np.array([index[key] for key in keys])
    time = np.frombuffer(array("d", [one.time_ms for one in events])) / 1e3
    found.add_groups(names, group, (step, time, np.frombuffer(array("d", [one.value for one in events]))))
    return True


def _events(block: bytes, steps: tuple[str, ...], kind: str, nesting: int) -> list[Any]:
    """Return the event of each line; none if a line is no such event.

    Fields that are not needed are skipped, with less of a check: what else could be in them is checked here.
    """
    decode = _decoder(steps, kind)
    objects = block[len(PREFIX) :].replace(b"\n" + PREFIX, b"\n")
    lines, removed = divmod(len(block) - len(objects), len(PREFIX))
    if decode is None or removed or not block.startswith(PREFIX) or not block.endswith(b"\n"):
        return []
    if lines != objects.count(b"\n") or not is_utf8(objects) or may_be_nested(objects, nesting):
        return []
    try:
        events = decode(objects)
    except (ValueError, RecursionError):
        return []
    return events if len(events) == lines else []


def _steps(events: Sequence[Any], steps: tuple[str, ...]) -> np.ndarray | None:
    """Return the step of each event, None if they differ in which field is the step."""
    metadata = [one.metadata for one in events]
    for name in steps:
        column = list(map(attrgetter(name), metadata))
        absent = column.count(None)
        if not absent:
            try:
                return np.frombuffer(array("q", column), np.int64)
            except OverflowError:
                return None
        if absent < len(column):
            return None
    return None


@lru_cache(maxsize=4)
def _decoder(steps: tuple[str, ...], kind: str) -> Callable[[bytes], list[Any]] | None:
    """Return what parses lines with these fields, the fastest way there is: msgspec, which comes with Airflow."""
    try:
        import msgspec
    except ImportError:
        return None
    from typing import Literal

    metadata = msgspec.defstruct("Metadata", [(name, int | None, None) for name in steps], gc=False)
    event = msgspec.defstruct(
        "Event",
        [("key", str), ("time_ms", float), ("event_type", Literal[kind]), ("value", float), ("metadata", metadata)],
        gc=False,
    )
    return msgspec.json.Decoder(event).decode_lines


TOKEN = b":::MLLOG"
POINT_IN_TIME = "POINT_IN_TIME"
STEPS = ("step", "step_num", "samples_count", "epoch_num", "epoch_count", "block_num", "first_epoch_num")
"""The fields of the metadata that are the step of a point, the first choice first."""
START, STOP = "_start", "_stop"
RUN, STATUS, SUCCESS = "run", "status", "success"
TIME_TO_TRAIN = "time_to_train"
SECONDS = Stated("s", LOWER)
MAX_OPEN = 1_000
"""How many kinds of intervals may be open at once."""


def claims(file: Beginning) -> bool:
    """Whether a line has the token, followed by an object with the key of an event."""
    return any(TOKEN in line and b'"key"' in line and b'"time_ms"' in line for line in file.head.split(b"\n"))


@dataclass(slots=True)
class _Intervals:
    """The starts of intervals that have not ended, and the values of series so far."""

    starts: dict[str, float] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)


def read(found: Readings) -> None:
    """Read values with a step as points, others as descriptions of the run, and the durations of intervals."""
    intervals = _Intervals()

    def add_columns(block: bytes, _first_line: int) -> bool:
        return add_events(found, block, STEPS, POINT_IN_TIME)

    def add_lines(block: bytes, first_line: int) -> None:
        for event in marked_objects(found, block, first_line, TOKEN):
            _add(found, intervals, event)

    pieces = InPieces(add_columns, add_lines)
    found.lines.check = check_marked(TOKEN)
    for block in found.lines.blocks():
        pieces.add(block, found.lines.first_line)
    if RUN in intervals.starts:
        found.lines.warn("the run has a start and no stop: it was cut off, and has no time_to_train")


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
        if step is None or content is None:
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
    "MLPerf logging: `:::MLLOG` lines, in a file of their own or in any log",
    "`<key>` for values with a step, epoch or number of samples; `<key>/<field>` for objects such as `tracked_stats`; "
    "`time_to_train`, `epoch/seconds`, `eval/seconds`, ... for intervals",
    "Values without a step, such as `seed` and `global_batch_size`, describe the run. A run that was aborted has a "
    "`time_to_train` that is not a finite number; one without an end has none, with a warning.",
    claims,
    read,
    (TOKEN,),
)
