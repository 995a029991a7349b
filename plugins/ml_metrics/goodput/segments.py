"""The segments of a job: runs of steps between restarts, and how much of each was kept."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from ml_metrics.goodput.entries import Entries, Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

NEVER = np.iinfo(np.int64).max
"""The value of `repeated_from` for a segment of which no step is repeated."""


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """Consecutive steps without a restart. Times never decrease, and step numbers increase."""

    step: NDArray[np.int64]
    time: NDArray[np.float64]
    repeated_from: int
    """The lowest step at which a later segment began. From there on, the steps of this segment were lost."""
    restart: float | None
    """When the job started again after this segment; None if no start is recorded."""
    ended: float | None
    """The end that the job recorded after this segment's last step and before the restart."""

    @property
    def last_step_is_done(self) -> bool:
        """Whether the last step of this segment was completed: a later segment continues after it, or the job ended."""
        return self.repeated_from > self.last_step and (self.repeated_from != NEVER or self.ended is not None)

    @property
    def last_step(self) -> int:
        """The last step that started."""
        return int(self.step[-1])

    @property
    def survives_until(self) -> float:
        """The time up to which the steps of this segment count. Later steps were repeated."""
        if self.repeated_from > self.last_step:
            return float(self.time[-1])
        at = int(np.searchsorted(self.step, self.repeated_from))
        if at == 0 or self.step[at] == self.repeated_from:
            return float(self.time[at])
        # not every step has to be in the log: interpolate its start
        share = (self.repeated_from - self.step[at - 1]) / (self.step[at] - self.step[at - 1])
        return float(self.time[at - 1] + share * (self.time[at] - self.time[at - 1]))

    @property
    def step_seconds(self) -> NDArray[np.float64]:
        """The time of each step except the last, whose end is unknown."""
        return np.diff(self.time) / np.diff(self.step)


@dataclass(frozen=True)
class Segments:
    """All segments of a job, in order."""

    segments: tuple[Segment, ...]
    duplicates: int
    """How many entries repeat a step that had just been recorded; a second worker may be writing."""

    @cached_property
    def median_step_seconds(self) -> float:
        """The median time of a step in all segments; 0 if no step has an end."""
        seconds = np.concatenate([segment.step_seconds for segment in self.segments])
        return float(np.median(seconds)) if len(seconds) else 0.0

    @property
    def disruptions(self) -> tuple[float, ...]:
        """The last time before each restart at which training is known to have run."""
        disrupted = list(self.segments[:-1])
        if self.segments and self.segments[-1].restart is not None:
            disrupted.append(self.segments[-1])
        return tuple(float(segment.time[-1]) for segment in disrupted)


def find_segments(entries: Entries) -> Segments:
    """Find the segments in entries that are in order of time."""
    at = entries.where(Kind.STEP)
    starts = entries.where(Kind.JOB_START)
    ends = entries.where(Kind.JOB_END)
    if not len(at):
        return Segments((), 0)
    step, time = _at(entries.number, at), _at(entries.time, at)
    again = _duplicates(step, time, at, starts)
    if again.any():
        at, step, time = at[~again], step[~again], time[~again]
    back = np.flatnonzero(step[1:] <= step[:-1]) + 1
    after_start = np.searchsorted(at, starts)
    cuts = np.unique(np.concatenate([back, after_start[(after_start > 0) & (after_start < len(at))]]))
    bounds = [0, *cuts.tolist(), len(at)]
    first_steps = step[bounds[:-1]]
    later = np.minimum.accumulate(np.append(first_steps[1:], NEVER)[::-1])[::-1]
    segments = []
    for index, (low, high) in enumerate(pairwise(bounds)):
        gap = (at[high - 1], at[high] if high < len(at) else len(entries))
        restart = _last_between(starts, *gap)
        ended = _last_between(ends, gap[0], gap[1] if restart is None else restart)
        segments.append(
            Segment(
                step=step[low:high],
                time=time[low:high],
                repeated_from=int(later[index]),
                restart=None if restart is None else float(entries.time[restart]),
                ended=None if ended is None else float(entries.time[ended]),
            )
        )
    return Segments(tuple(segments), int(again.sum()))


def _last_between(positions: NDArray[np.intp], low: int, high: int) -> int | None:
    index = int(np.searchsorted(positions, high)) - 1
    return int(positions[index]) if index >= 0 and positions[index] > low else None


def _at(column: NDArray[Any], at: NDArray[np.intp]) -> NDArray[Any]:
    """Return the rows at these positions, without a copy if they are contiguous, as they are in most logs."""
    first, last = int(at[0]), int(at[-1])
    return column[first : last + 1] if last - first + 1 == len(at) else column[at]


def _duplicates(
    step: NDArray[np.int64], time: NDArray[np.float64], at: NDArray[np.intp], starts: NDArray[np.intp]
) -> NDArray[np.bool_]:
    """Return which entries repeat a step within a step's time and without a start of the job in between.

    A restart takes longer than that. Such an entry comes from a second worker, or was delivered twice.
    """
    again = np.zeros(len(step), np.bool_)
    if (step[1:] > step[:-1]).all():
        return again
    order = np.argsort(step, kind="stable")
    ordered, moment, segment = step[order], time[order], np.searchsorted(starts, at[order])
    same = ordered[1:] == ordered[:-1]
    apart = np.diff(moment)
    between = np.diff(moment[np.concatenate([[True], ~same])])
    usual = float(np.median(between[between > 0])) if (between > 0).any() else 0.0
    again[order[1:]] = same & (segment[1:] == segment[:-1]) & ((apart < usual) | (apart == 0))
    return again
