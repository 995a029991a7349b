"""The periods of a run: queue, pull, each attempt, and the parts of its time. Pure functions of its documents."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ml_metrics.goodput.time_buckets import CUSTOM_PREFIX, PRODUCTIVE, Bucket
from ml_metrics.values import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from ml_metrics.model import Workload
    from ml_metrics.run_state import RunState

RUN, QUEUE, PULL, ATTEMPT, START = "run", "queue", "pull", "attempt", "start"
NAMES = {
    PRODUCTIVE: "steps",
    Bucket.UNPRODUCTIVE_CHECKPOINT_SAVE_TIME: "save",
    Bucket.UNPRODUCTIVE_CHECKPOINT_RESTORE_TIME: "restore",
    Bucket.PROGRAM_STARTUP: "compile",
    Bucket.CUSTOM_BADPUT_EVENTS: "custom",
}
"""The names of what an attempt spends its time on. The others are those of the buckets of goodput."""
SPENT_ON = "ml_metrics.goodput.bucket"
EVENT = "ml_metrics.goodput.event"
MAX_TEXT = 200
LATEST = float(1 << 33)
"""A time in seconds since 1970 that every backend can store, in the year 2242."""


@dataclass(frozen=True, slots=True)
class Period:
    """A part of a run, in seconds since 1970."""

    name: str
    start: float
    end: float
    attributes: Mapping[str, Any] = field(default_factory=dict)
    attempt: int = 0
    """The attempt that it is a part of; 0 for what is before and between attempts."""


def periods_of(state: RunState, decided_at: float) -> list[Period]:
    """Return the periods of a run that was decided, the whole run first and attempts before their parts."""
    workload = state.workload
    attempts = list(_attempts(workload, decided_at))
    found = [*_before_the_start(workload, len(attempts)), *attempts, *_spent(state, attempts)]
    times = [time for one in found for time in (one.start, one.end)]
    whole = Period(RUN, min(times, default=decided_at), max([*times, decided_at]))
    return [whole, *found]


def _attempts(workload: Workload, now: float) -> Iterator[Period]:
    """Yield the attempts that ran. The end of one that is unknown is the start of the next."""
    times = [*workload.earlier, *([(workload.started_at, workload.ended_at)] if workload.started_at else [])]
    starts = [start.timestamp() for start, _ in times]
    for number, (start, end) in enumerate(times, 1):
        following = starts[number] if number < len(starts) else now
        ended = end.timestamp() if end else following
        yield Period(ATTEMPT, start.timestamp(), max(start.timestamp(), ended), {"ml_metrics.attempt": number}, number)


def _before_the_start(workload: Workload, attempts: int) -> Iterator[Period]:
    """Yield the waits of the last attempt for a node, and for its image."""
    number = {"ml_metrics.attempt": max(1, attempts if workload.started_at else workload.attempts)}
    queued, scheduled, started = workload.queued_at, workload.scheduled_at, workload.started_at
    has_node = scheduled or started
    yield from _between(QUEUE, queued, has_node or workload.ended_at, number)
    if scheduled:
        image = {"container.image.name": workload.image} if workload.image else {}
        yield from _between(PULL, scheduled, started or workload.ended_at, {**number, **image})


def _between(
    name: str, start: datetime | None, end: datetime | None, attributes: Mapping[str, Any]
) -> Iterator[Period]:
    """Yield a period if its times are known. Clocks of machines differ: one second too few is none at all."""
    if start is not None and end is not None:
        yield Period(name, start.timestamp(), max(start.timestamp(), end.timestamp()), attributes)


def _spent(state: RunState, attempts: list[Period]) -> Iterator[Period]:
    """Yield the parts of the attempts' time, as goodput measured it. A workload wrote these times."""
    timeline = (state.goodput or {}).get("timeline") or {}
    intervals = timeline.get("intervals") or []
    for number, interval in enumerate(intervals):
        start, end = float(interval["started_at"]), float(interval["ended_at"])
        if not 0 <= start <= end <= LATEST:
            continue
        attempt = next((one for one in reversed(attempts) if one.start <= start), None)
        if number == 0 and attempt is not None:
            yield Period(START, attempt.start, start, attempt=attempt.attempt)
        yield _interval(str(interval["spent_on"]), start, end, attempt.attempt if attempt else 0)


def _interval(spent_on: str, start: float, end: float, attempt: int) -> Period:
    """Return an interval of the timeline. What the workload calls an event is an attribute: names are few."""
    attributes = {SPENT_ON: spent_on}
    if spent_on.startswith(CUSTOM_PREFIX):
        event = printable(spent_on.removeprefix(CUSTOM_PREFIX))[:MAX_TEXT]
        attributes = {SPENT_ON: str(Bucket.CUSTOM_BADPUT_EVENTS), EVENT: event}
    return Period(NAMES.get(attributes[SPENT_ON], attributes[SPENT_ON]), start, end, attributes, attempt)
