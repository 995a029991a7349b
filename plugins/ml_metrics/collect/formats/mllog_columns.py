"""Adding a block of MLLOG lines by columns, if all of them are numbers at a step."""

from __future__ import annotations

from array import array
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from ml_metrics.json_lines import is_utf8, may_be_nested

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ml_metrics.collect.formats.readings import Readings

PREFIX = b":::MLLOG "


def add_columns(found: Readings, block: bytes, steps: tuple[str, ...], kind: str) -> bool:
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
