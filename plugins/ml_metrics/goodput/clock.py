"""One clock for a log of several workers: the entries of one of them, and what only others recorded.

The times of two clocks are never mixed. What is taken from another worker is moved by the difference of the clocks at
the steps that both recorded, which also follows clocks that drift.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ml_metrics.goodput.entries import Entries, Kind
from ml_metrics.goodput.interleaved import split
from ml_metrics.goodput.workers import Worker, workers_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ml_metrics.goodput.entry_parts import Checkpoint, Slices

MOST_STEPS = 0.5
"""The worker whose clock counts recorded at least this share of the steps of the one that recorded the most."""
NOTABLE_SECONDS = 1.0
"""A greater difference of the clocks is a warning."""
GROUPS = (
    (Kind.JOB_START, Kind.JOB_END),
    (Kind.TPU_INIT_START, Kind.TPU_INIT_END),
    (Kind.TRAINING_PREP_START, Kind.TRAINING_PREP_END),
    (Kind.DATA_LOADING_START, Kind.DATA_LOADING_END),
    (Kind.CUSTOM_START, Kind.CUSTOM_END),
    (Kind.ELASTIC_WAIT_START, Kind.ELASTIC_WAIT_END),
    (Kind.ELASTIC_REINIT_START, Kind.ELASTIC_REINIT_END),
    (Kind.SLICE_COUNTS,),
    (Kind.SAVE,),
    (Kind.RESTORE,),
)
"""The kinds of entries that are taken together from another worker, if the one whose clock counts has none."""


@dataclass(frozen=True, slots=True, eq=False)
class OneClock:
    """The entries of a job by one clock."""

    entries: Entries
    workers: tuple[Worker, ...]
    clock: str = ""
    """A sentence about the workers and the clock; empty if there is only one worker."""
    warnings: tuple[str, ...] = ()


def by_one_clock(entries: Entries) -> OneClock:
    """Choose a clock, and return the entries by it. The log of a single worker is not changed."""
    if entries.writer is None and len(split(entries.kind, entries.time, entries.number)) == 1:
        return OneClock(entries, ())
    workers, guessed = workers_of(entries)
    if len(workers) == 1:
        return OneClock(entries, tuple(workers))
    names = _names(workers)
    chosen = _chosen(entries, workers)
    joined = _Joined.of(entries, workers[chosen])
    others = [worker for index, worker in enumerate(workers) if index != chosen]
    differences = [_median_difference(workers[chosen], other) for other in others]
    joined.extend(entries, others)
    joined.borrow(entries, others)
    farthest = max(differences, key=abs, default=0.0)
    sentence = f"{len(workers)} workers recorded the job; its times are by the clock of {names[chosen]}"
    if joined.continued:
        sentence += f", and after it ended by those of {joined.continued} others, moved by the difference of the clocks"
    warnings = []
    if guessed:
        warnings.append(
            f"the log has entries of {len(workers)} workers that do not name their writer; "
            "their steps show which entry is whose"
        )
    if abs(farthest) >= NOTABLE_SECONDS:
        other = names[workers.index(others[differences.index(farthest)])]
        how = "ahead of" if farthest > 0 else "behind"
        warnings.append(f"{sentence}. The clock of {other} is {abs(farthest):.6g} s {how} it")
    return OneClock(joined.entries(), tuple(workers), sentence, tuple(warnings))


def _names(workers: Sequence[Worker]) -> list[str]:
    """Return a name of each worker, unique."""
    names: list[str] = []
    for worker in workers:
        name, number = worker.name, 2
        while name in names:
            name, number = f"{worker.name} [{number}]", number + 1
        names.append(name)
    return names


def _chosen(entries: Entries, workers: Sequence[Worker]) -> int:
    """Return the worker whose clock counts.

    Of those that recorded many steps, it is one that recorded the job's start and end, then the one with most steps,
    then the first by name.
    """
    spans = [_span(worker) for worker in workers]

    def rank(index: int) -> tuple[bool, int, int, str, int]:
        kinds = entries.kind[workers[index].at]
        marks = bool((kinds == Kind.JOB_START).any()) + bool((kinds == Kind.JOB_END).any())
        return spans[index] < MOST_STEPS * max(spans), -marks, -spans[index], workers[index].name, index

    return min(range(len(workers)), key=rank)


def _span(worker: Worker) -> int:
    """Return how many steps a worker went through. It need not have recorded all of them."""
    ends = [int(end) for life in worker.lives if len(life.step) for end in (life.step[0], life.step[-1])]
    return max(ends) - min(ends) + 1 if ends else 0


def _steps_of(worker: Worker) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the steps of a worker, each once, and when they last started."""
    step = np.concatenate([life.step for life in worker.lives])
    time = np.concatenate([life.time for life in worker.lives])
    unique, last = np.unique(step[::-1], return_index=True)
    return unique, time[::-1][last]


def _difference(
    step: NDArray[np.int64], time: NDArray[np.float64], other: Worker
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return times by another worker's clock, and by how much it was ahead of the chosen one then."""
    theirs, their_time = _steps_of(other)
    _, at, at_other = np.intersect1d(step, theirs, assume_unique=True, return_indices=True)
    order = np.argsort(their_time[at_other], kind="stable")
    return their_time[at_other][order], (their_time[at_other] - time[at])[order]


def _median_difference(chosen: Worker, other: Worker) -> float:
    ahead = _difference(*_steps_of(chosen), other)[1]
    return float(np.median(ahead)) if len(ahead) else 0.0


class _Joined:
    """The entries that are being put together, as parts of the log by the chosen clock."""

    def __init__(self, step: NDArray[np.int64], time: NDArray[np.float64], parts: list[Entries]) -> None:
        self._step, self._time, self._parts = step, time, parts
        self.continued = 0
        """How many other workers continued after the chosen one had ended, or began before it."""

    @classmethod
    def of(cls, entries: Entries, chosen: Worker) -> _Joined:
        """Return the entries of the chosen worker."""
        return cls(*_steps_of(chosen), [part_of(entries, chosen.at)])

    def entries(self) -> Entries:
        """Return all entries, in their order."""
        first, *others = self._parts
        for other in others:
            first = _merged(first, other)
        return first

    def extend(self, entries: Entries, others: Sequence[Worker]) -> None:
        """Add the steps of workers that went on after the last step of the chosen one, or began before its first."""
        for other in sorted(others, key=_span, reverse=True):
            if not len(self._step):
                return
            moved = self._moved(entries, other)
            if moved is None:
                continue
            steps = moved.kind == Kind.STEP
            after = steps & (moved.number > self._step[-1]) & (moved.time > self._time[-1])
            before = steps & (moved.number < self._step[0]) & (moved.time < self._time[0])
            if before.any():
                self._begin_with(moved)
            if after.any():
                late = np.flatnonzero((moved.time > self._time[-1]) & ~(steps & ~after))
                self._parts.append(part_of(moved, late))
            self.continued += bool(before.any() or after.any())
            for mask in (before, after):
                self._step = np.concatenate([self._step, moved.number[mask]])
                self._time = np.concatenate([self._time, moved.time[mask]])
            self._step, at = np.unique(self._step, return_index=True)
            self._time = self._time[at]

    def _begin_with(self, moved: Entries) -> None:
        """Put another worker's entries before the first step of the chosen one, whose own start is not the job's."""
        own = self._parts[0]
        first = float(self._time[0])
        kept = np.flatnonzero(~(own.time < first))
        early = np.flatnonzero(moved.time < first)
        self._parts[0] = _merged(part_of(moved, early), part_of(own, kept))

    def borrow(self, entries: Entries, others: Sequence[Worker]) -> None:
        """Add the kinds of entries that the chosen worker lacks, each from the worker that has most of them."""
        present = set(np.concatenate([part.kind for part in self._parts]).tolist())
        for kinds in GROUPS:
            if present.intersection(kinds):
                continue
            counts = [int(np.isin(entries.kind[other.at], kinds).sum()) for other in others]
            if max(counts, default=0):
                other = others[counts.index(max(counts))]
                moved = self._moved(entries, other) or part_of(entries, other.at)
                self._parts.append(part_of(moved, np.flatnonzero(np.isin(moved.kind, kinds))))

    def _moved(self, entries: Entries, other: Worker) -> Entries | None:
        """Return another worker's entries by the chosen clock; None if both recorded no common step."""
        at, ahead = _difference(self._step, self._time, other)
        return part_of(entries, other.at, at, ahead) if len(at) else None


def part_of(
    entries: Entries,
    positions: NDArray[np.intp],
    at: NDArray[np.float64] | None = None,
    ahead: NDArray[np.float64] | None = None,
) -> Entries:
    """Return some entries; with `at` and `ahead`, their times moved back by what their clock was ahead then."""

    def moved(time: float | None) -> float | None:
        if time is None or at is None or ahead is None:
            return time
        return time - float(np.interp(time, at, ahead))

    kind, number, time = entries.kind[positions], entries.number[positions].copy(), entries.time[positions]
    if at is not None and ahead is not None:
        time = time - np.interp(time, at, ahead)
    checkpoints: list[Checkpoint] = []
    slices: list[Slices] = []
    for row in np.flatnonzero((kind == Kind.SAVE) | (kind == Kind.RESTORE)).tolist():
        one = entries.checkpoints[number[row]]
        number[row] = len(checkpoints)
        checkpoints.append(replace(one, start=moved(one.start), first_time=moved(one.first_time)))
    for row in np.flatnonzero(kind == Kind.SLICE_COUNTS).tolist():
        count = entries.slices[number[row]]
        number[row] = len(slices)
        slices.append(replace(count, time=moved(count.time) or 0.0))
    return replace(
        entries,
        kind=kind,
        time=time,
        number=number,
        checkpoints=tuple(checkpoints),
        slices=tuple(slices),
        writer=None,
        writers=(),
    )


def _merged(one: Entries, other: Entries) -> Entries:
    """Return the entries of both, those of the second among the first by their times; the first stay in their order."""
    number = other.number.copy()
    saved = (other.kind == Kind.SAVE) | (other.kind == Kind.RESTORE)
    number[saved] += len(one.checkpoints)
    number[other.kind == Kind.SLICE_COUNTS] += len(one.slices)
    reached = np.maximum.accumulate(np.nan_to_num(one.time, nan=-np.inf)) if len(one) else one.time
    theirs = np.maximum.accumulate(np.nan_to_num(other.time, nan=-np.inf)) if len(other) else other.time
    place = np.searchsorted(reached, theirs, "right")
    order = np.argsort(np.concatenate([np.arange(len(one)) * 2 + 1, place * 2]), kind="stable")
    return replace(
        one,
        kind=np.concatenate([one.kind, other.kind])[order],
        time=np.concatenate([one.time, other.time])[order],
        number=np.concatenate([one.number, number])[order],
        checkpoints=one.checkpoints + other.checkpoints,
        slices=one.slices + other.slices,
    )
