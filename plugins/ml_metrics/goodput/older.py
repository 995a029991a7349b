"""The arithmetic of ml-goodput-measurement 0.2.3, with its faults: for numbers that must be comparable with older ones.

docs/goodput.md lists where it is wrong. Nothing else in this package uses it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from ml_metrics.goodput.buckets import Bucket
from ml_metrics.goodput.entries import Entries, Kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

_PAIRS = {
    Kind.TPU_INIT_END: (Kind.TPU_INIT_START, Bucket.TPU_INITIALIZATION),
    Kind.TRAINING_PREP_END: (Kind.TRAINING_PREP_START, Bucket.TRAINING_PREP),
}


@dataclass(slots=True)
class OlderFigures:
    """What the older library says, in seconds."""

    productive: float = 0.0
    total: float = 0.0
    badput: dict[Bucket, float] = field(default_factory=dict)
    custom: dict[str, float] = field(default_factory=dict)
    max_productive_step: int = 0
    last_step: int = 0
    disruptions: int = 0

    @property
    def goodput(self) -> float:
        """The productive share, in percent."""
        return self.productive / self.total * 100

    def percent(self, seconds: float) -> float:
        """A bucket's share, which is 0 where it is not less than the whole."""
        return seconds / self.total * 100 if 0 < seconds < self.total else 0.0

    def add(self, bucket: Bucket, seconds: float) -> None:
        """Add to a bucket."""
        self.badput[bucket] = self.badput.get(bucket, 0.0) + seconds


@dataclass(frozen=True, slots=True, eq=False)
class _Events:
    """The custom events, ordered by their starts."""

    start: NDArray[np.float64]
    end: NDArray[np.float64]
    name: tuple[str, ...]


def older_figures(entries: Entries, query_time: float) -> OlderFigures:
    """Everything that `get_job_goodput` computes.

    Raises:
        ValueError: As the older library does, where no time passed or more of it was productive than passed.
    """
    figures = OlderFigures(total=_total(entries, query_time))
    if figures.total == 0:
        raise ValueError("Total job time is zero: the log holds no start of the job")
    _walk(entries, figures)
    if not 0 <= figures.productive <= figures.total:
        raise ValueError(f"Productive time is invalid: {figures.productive:.6g} s of {figures.total:.6g} s")
    for spent in (figures.badput, figures.custom):
        for name, seconds in list(spent.items()):
            if not 0 <= seconds <= figures.total:
                spent[name] = 0.0  # type: ignore[index]  # a key of its own
    counted = sum(seconds for bucket, seconds in figures.badput.items() if bucket != Bucket.DATA_LOADING_ASYNC)
    other = figures.total - figures.productive - counted - sum(figures.custom.values())
    figures.badput[Bucket.OTHER] = max(0.0, other)
    return figures


def _total(entries: Entries, query_time: float) -> float:
    starts, ends = entries.where(Kind.JOB_START), entries.where(Kind.JOB_END)
    if not len(starts):
        return 0.0
    end = float(entries.time[ends[-1]]) if len(ends) else query_time
    return end - float(entries.time[starts[0]])


def _walk(entries: Entries, figures: OlderFigures) -> None:
    """Go through the log once, closing a segment wherever a step comes that the segment already has."""
    events = _custom_events(entries)
    segment: dict[int, float] = {}
    open_since: dict[Kind, float] = {}
    job_start: float | None = None
    job_end: float | None = None
    loading = 0.0
    first_load, current_load = True, None
    rows = zip(entries.kind.tolist(), entries.time.tolist(), entries.number.tolist(), strict=True)
    for kind, time, number in rows:
        if kind == Kind.STEP:
            if number in segment:
                figures.disruptions += 1
                before = next(reversed(segment.values()))
                figures.productive += _close(segment, number, events, figures)[0]
                first_load = True
                if current_load is not None:
                    figures.add(Bucket.DATA_LOADING_SYNC, current_load)
                    current_load = None
                if job_start is not None and job_start > before:
                    figures.add(Bucket.INFRASTRUCTURE_RECOVERY_FROM_DISRUPTION, job_start - before)
                segment = {}
            segment[number] = time
        elif kind == Kind.JOB_START:
            job_start = time
        elif kind == Kind.JOB_END:
            job_end = time
        elif kind in (Kind.TPU_INIT_START, Kind.TRAINING_PREP_START, Kind.DATA_LOADING_START):
            open_since[Kind(kind)] = time
        elif kind in _PAIRS:
            start, bucket = _PAIRS[Kind(kind)]
            if start in open_since:
                figures.add(bucket, time - open_since.pop(start))
        elif kind == Kind.DATA_LOADING_END and Kind.DATA_LOADING_START in open_since:
            current_load = time - open_since.pop(Kind.DATA_LOADING_START)
            loading += current_load
            if first_load:
                figures.add(Bucket.DATA_LOADING_SYNC, current_load)
                first_load = False
    figures.badput[Bucket.DATA_LOADING_ASYNC] = loading - figures.badput.get(Bucket.DATA_LOADING_SYNC, 0.0)
    saves = _checkpoints(entries, Kind.SAVE)
    figures.badput[Bucket.UNPRODUCTIVE_CHECKPOINT_SAVE_TIME] = saves
    figures.badput[Bucket.UNPRODUCTIVE_CHECKPOINT_RESTORE_TIME] = _checkpoints(entries, Kind.RESTORE)
    if not segment:
        return
    figures.last_step = max(segment)
    productive, figures.max_productive_step = _close(segment, figures.last_step, events, figures)
    figures.productive += productive
    if job_end is not None:
        figures.productive += job_end - segment[figures.last_step]
        figures.max_productive_step = figures.last_step
    figures.productive -= saves


def _close(segment: dict[int, float], current: int, events: _Events, figures: OlderFigures) -> tuple[float, int]:
    """The productive time of a segment that ends before a step, and its last productive step."""
    if current == 0:
        return 0.0, 0
    step = np.fromiter(segment.keys(), np.int64, len(segment))
    time = np.fromiter(segment.values(), np.float64, len(segment))
    delta = np.diff(time)
    kept = step[1:] <= current
    figures.add(Bucket.WASTED_PROGRESS_FROM_DISRUPTION, float(delta[~kept].sum()))
    counted = kept & (np.diff(step) == 1)
    if not counted.any():
        return 0.0, 0
    held_up = np.zeros(len(delta))
    for index, seconds, name in _events_inside(events, time, counted):
        held_up[index] += seconds
        figures.custom[name] = figures.custom.get(name, 0.0) + seconds
    adjusted = np.maximum(0.0, delta - held_up)[counted]
    first = step[:-1][counted] == step.min()
    others = adjusted[~first]
    startup = 0.0
    if len(others):
        startup = max(0.0, float(adjusted[first].sum()) - float(others.mean()))
    figures.add(Bucket.PROGRAM_STARTUP, startup)
    return float(adjusted.sum()) - startup, int(step[:-1][counted][-1])


def _events_inside(
    events: _Events, time: NDArray[np.float64], counted: NDArray[np.bool_]
) -> Iterator[tuple[int, float, str]]:
    """The events that lie inside one counted step as a whole: the step's index, the duration and the name."""
    if (np.diff(time) < 0).any():  # a clock that went back: an event may lie inside several steps, or none
        for low, high, name in zip(events.start.tolist(), events.end.tolist(), events.name, strict=True):
            for index in np.flatnonzero(counted & (time[:-1] <= low) & (high <= time[1:])).tolist():
                yield index, high - low, name
        return
    first, last = np.searchsorted(events.start, [time[0], time[-1]], "left")
    at = np.searchsorted(time, events.start[first:last], "right") - 1
    for index, event in zip(at.tolist(), range(first, last), strict=True):
        low, high = float(events.start[event]), float(events.end[event])
        if index < len(counted) and counted[index] and high <= time[index + 1]:
            yield index, high - low, events.name[event]


def _custom_events(entries: Entries) -> _Events:
    open_since: dict[str, float] = {}
    found: list[tuple[float, float, str]] = []
    for at in entries.where(Kind.CUSTOM_START, Kind.CUSTOM_END).tolist():
        name, time = entries.names[entries.number[at]].upper(), float(entries.time[at])
        if entries.kind[at] == Kind.CUSTOM_START:
            open_since[name] = time
        elif name in open_since and (low := open_since.pop(name)) < time:
            found.append((low, time, name))
    found.sort(key=lambda event: event[0])
    return _Events(
        np.array([low for low, _, _ in found]),
        np.array([high for _, high, _ in found]),
        tuple(name for _, _, name in found),
    )


def _checkpoints(entries: Entries, kind: Kind) -> float:
    """The sum, over distinct steps and stores, of the mean duration."""
    reports: dict[tuple[str, bool], list[float]] = {}
    for at in entries.where(kind).tolist():
        checkpoint = entries.checkpoints[entries.number[at]]
        reports.setdefault((checkpoint.step, checkpoint.remote), []).append(checkpoint.seconds)
    return sum(sum(durations) / len(durations) for durations in reports.values())
