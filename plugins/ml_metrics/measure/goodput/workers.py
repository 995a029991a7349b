"""The workers that wrote a log, each with all its lives: a worker that starts again is the same worker.

Clocks of hosts differ. Two writers whose entries alternate in the log ran at the same time. For others, the difference
of clocks that each answer would require decides: the smaller one is true. Two that ran at the same time began the same
steps with a nearly constant difference; if one followed the other, only the overlap of their times is due to their
clocks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from ml_metrics.measure.goodput.log import NAME_FIELDS, Entries, Kind
from ml_metrics.measure.goodput.writer import Writer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from ml_metrics.measure.goodput.log import Checkpoint, Slices


FEWEST_STEPS = 3
COMMON = 0.8
"""The share of its steps that a worker has in common with the first one, at least."""
TURNS = 3.0
"""A worker that has waited for this many times as long as another since its last step was stopped."""
HALF = 0.5
"""The share of the first worker's steps that a worker recorded, at least."""
FEWEST_TURNS = 3
FLUSHES = 0.02
"""How often two workers alternate at least, in times their steps: each writes many steps at once if they are fast."""
MOST_WORKERS = 64
"""With more, the log is taken to be of one worker."""


def split(kind: NDArray[np.uint8], time: NDArray[np.float64], number: NDArray[np.int64]) -> list[NDArray[np.intp]]:
    """Return the positions of each worker's entries in a part of a log whose entries do not name their writer."""
    everything = [np.arange(len(kind))]
    steps = np.flatnonzero(kind == Kind.STEP)
    if not _may_be_interleaved(kind, steps, time, number):
        return everything
    steps = _in_turn(steps, time, number)
    lanes = _lanes(number[steps].tolist(), time[steps].tolist())
    lanes = [lane for lane in lanes if len(lane) >= FEWEST_STEPS]
    groups = _side_by_side([steps[lane] for lane in lanes], time, number)
    if len(groups) == 1:
        return everything
    ahead = [(_offset(groups[0], group, time, number)[0], group) for group in groups]
    ahead.sort(key=lambda one: one[0])
    offsets = [offset - ahead[0][0] for offset, _ in ahead]
    parts = _with_events(kind, time, number, [group for _, group in ahead], offsets)
    return [np.sort(part) for part in parts]


def _may_be_interleaved(
    kind: NDArray[np.uint8], steps: NDArray[np.intp], time: NDArray[np.float64], number: NDArray[np.int64]
) -> bool:
    """Return whether steps are repeated as they are when workers write side by side.

    Where a job was started again, times rise throughout, and few steps are lower than the one before.
    """
    if len(steps) < 2 * FEWEST_STEPS:
        return False
    step, moment = number[steps], time[steps]
    back = int((step[1:] <= step[:-1]).sum())
    if not back or len(np.unique(step)) == len(step):
        return False
    repeated = len(step) - len(np.unique(step))
    starts = int((kind == Kind.JOB_START).sum())
    return bool((np.diff(moment) < 0).any()) or (back > starts + 2 and COMMON * repeated <= 4 * back)


def _in_turn(steps: NDArray[np.intp], time: NDArray[np.float64], number: NDArray[np.int64]) -> NDArray[np.intp]:
    """Return the steps in the order of the log, but entries of one step side by side by their times.

    Workers that take turns do not always do so in the same order.
    """
    side_by_side = np.cumsum(np.diff(number[steps], prepend=number[steps[0]]) != 0)
    return steps[np.lexsort((time[steps], side_by_side))]


def _lanes(step: list[int], time: list[float]) -> list[list[int]]:
    """Distribute steps in their order over as few rising sequences as possible.

    A step continues the sequence with the closest lower step. Of several at the same step, it is the one that has
    waited longest, as workers take turns; but one that has waited much longer than the others was stopped.
    """
    lanes: list[list[int]] = []
    for at, (number, moment) in enumerate(zip(step, time, strict=True)):
        fitting = [lane for lane in lanes if step[lane[-1]] < number and time[lane[-1]] <= moment]
        if fitting:
            closest = max(step[lane[-1]] for lane in fitting)
            ages = [(moment - time[lane[-1]], lane) for lane in fitting if step[lane[-1]] == closest]
            active = TURNS * min(age for age, _ in ages)
            min((lane for age, lane in ages if age <= active), key=lambda lane: lane[-1]).append(at)
        elif len(lanes) < MOST_WORKERS:
            lanes.append([at])
        else:
            return []
    return lanes


def _side_by_side(
    lanes: list[NDArray[np.intp]], time: NDArray[np.float64], number: NDArray[np.int64]
) -> list[NDArray[np.intp]]:
    """Return the longest lane and those that ran beside it; others may be parts of these after a restart."""
    if not lanes:
        return [np.empty(0, np.intp)]
    lanes = sorted(lanes, key=len, reverse=True)
    groups = [lanes[0]]
    for lane in lanes[1:]:
        offset, common = _offset(groups[0], lane, time, number)
        overlap = min(time[lane[-1]], time[groups[0][-1]]) - max(time[lane[0]], time[groups[0][0]])
        enough = common >= max(COMMON * len(lane), HALF * len(groups[0]))
        if enough and 0 < abs(offset) < overlap and _takes_turns(groups[0], lane, number):
            groups.append(lane)
    return groups


def _takes_turns(one: NDArray[np.intp], other: NDArray[np.intp], number: NDArray[np.int64]) -> bool:
    """Return whether two lanes alternate in the log, or are the logs of two whole jobs, one after the other.

    Otherwise the second began when the first had stopped, and a clock that was set back makes them overlap.
    """
    at = np.concatenate([one, other])
    is_one = (np.arange(len(at)) < len(one))[np.argsort(at, kind="stable")]
    turns = int((is_one[1:] != is_one[:-1]).sum())
    whole = number[one[0]] == number[other[0]] and number[one[-1]] == number[other[-1]]
    return bool(whole) or turns >= max(FEWEST_TURNS, FLUSHES * len(other))


def _offset(
    one: NDArray[np.intp], other: NDArray[np.intp], time: NDArray[np.float64], number: NDArray[np.int64]
) -> tuple[float, int]:
    """Return by how much the second lane's clock is ahead, and how many steps both have."""
    _, at_one, at_other = np.intersect1d(number[one], number[other], assume_unique=True, return_indices=True)
    if not len(at_one):
        return 0.0, 0
    return float(np.median(time[other[at_other]] - time[one[at_one]])), len(at_one)


def _with_events(
    kind: NDArray[np.uint8],
    time: NDArray[np.float64],
    number: NDArray[np.int64],
    groups: list[NDArray[np.intp]],
    offsets: list[float],
) -> list[NDArray[np.intp]]:
    """Add all other entries. One that another worker recorded, too, comes twice, as far apart as the clocks are."""
    parts = [[*group.tolist()] for group in groups]
    taken = {at for part in parts for at in part}
    tolerance = min(offset for offset in offsets if offset > 0) / 2
    waiting: dict[tuple[int, int], list[int]] = {}
    for at in range(len(kind)):
        if at not in taken:
            named = int(number[at]) if Kind(kind[at]) in {Kind.STEP, *NAME_FIELDS} else 0
            waiting.setdefault((int(kind[at]), named), []).append(at)
    for entries in waiting.values():
        moments = np.nan_to_num(time[entries])
        order = np.argsort(moments, kind="stable")
        rows, sorted_moments = np.array(entries)[order].tolist(), moments[order]
        used: set[int] = set()
        for index, row in enumerate(rows):
            if index in used:
                continue
            parts[0].append(row)
            for part, offset in zip(parts[1:], offsets[1:], strict=True):
                wanted = sorted_moments[index] + offset
                low, high = np.searchsorted(sorted_moments, [wanted - tolerance, wanted + tolerance])
                near = next((one for one in range(max(int(low), index + 1), int(high)) if one not in used), None)
                if near is not None:
                    used.add(near)
                    part.append(rows[near])
    return [np.array(part, np.intp) for part in parts]


SAMPLE = 64
"""How many steps of two processes are compared, at the beginning and throughout."""
SHORT_OVERLAP = 0.1
"""Two writers without a common step ran one after the other if less of the shorter one overlaps."""
MAX_COMPARED = 100_000
"""How many pairs of processes are compared: a log may name thousands of hosts. Beyond that, each host is a worker."""
IN_TURNS = 0.5
"""Two writers that wrote in turns have more than this share of their entries between those of the other.

One that followed another has fewer there: in the order of the log none, and in that of times those of the overlap.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Life:
    """The entries of one process."""

    name: str
    host: str
    at: NDArray[np.intp]
    """The positions of its entries in the log, rising."""
    step: NDArray[np.int64]
    """Each step once, rising."""
    time: NDArray[np.float64]
    """When each step started for the last time, by the clock of this process."""
    first_time: NDArray[np.float64]
    """When each step started for the first time."""
    low: float
    high: float
    """The times of the first and the last entry."""
    ended: bool
    """Whether the job's end is recorded after the last step."""


@dataclass(frozen=True, slots=True, eq=False)
class Worker:
    """One worker: processes that ran one after the other."""

    lives: tuple[Life, ...]

    @property
    def name(self) -> str:
        return self.lives[-1].name

    @property
    def at(self) -> NDArray[np.intp]:
        return np.sort(np.concatenate([life.at for life in self.lives]))


def workers_of(entries: Entries) -> tuple[list[Worker], bool]:
    """Return the workers of a log, and whether some were distinguished by their steps alone."""
    lives, guessed = _lives(entries)
    if len(lives) == 1:
        return [Worker(tuple(lives))], False
    workers: list[list[Life]] = []
    compared = 0
    for lives_of_host in _by_host(lives):
        compared += len(workers)
        candidates = workers if compared <= MAX_COMPARED else []
        before = [worker for worker in candidates if _continues(worker[-1], lives_of_host[0])]
        if before:
            max(before, key=lambda worker: worker[-1].high).extend(lives_of_host)
        else:
            workers.append(lives_of_host)
    return [Worker(tuple(worker)) for worker in workers], guessed and len(workers) > 1


def _by_host(lives: Iterable[Life]) -> list[list[Life]]:
    """Return the lives that follow each other on one host, the earliest host first."""
    chains: list[list[Life]] = []
    latest: dict[str, list[Life]] = {}
    for life in sorted(lives, key=lambda life: (life.low, life.at[0])):
        chain = latest.get(life.host) if life.host else None
        if chain is not None and _continues(chain[-1], life):
            chain.append(life)
        else:
            chains.append([life])
            latest[life.host] = chains[-1]
    return chains


def _lives(entries: Entries) -> tuple[list[Life], bool]:
    lives = []
    guessed = False
    for writer, at in _by_process(entries):
        parts = split(entries.kind[at], entries.time[at], entries.number[at])
        guessed = guessed or len(parts) > 1
        for index, part in enumerate(parts):
            suffix = f" ({index + 1})" if len(parts) > 1 else ""
            host = f"{writer.host}{suffix}" if writer.host else ""
            lives.append(_life(entries, at[part], f"{writer.name or 'the log'}{suffix}", host))
    return lives, guessed


def _by_process(entries: Entries) -> Iterator[tuple[Writer, NDArray[np.intp]]]:
    """Yield each process and the positions of its entries.

    Processes of one host that wrote into one file one after the other are lives of one worker, and stay together.
    """
    if entries.writer is None:
        yield (entries.writers or (Writer(),))[0], np.arange(len(entries))
        return
    groups: dict[tuple[str, str], int] = {}
    group_of = np.array([groups.setdefault((one.file, one.host), len(groups)) for one in entries.writers], np.int32)
    for at in _split(group_of[entries.writer]):
        pids = entries.writer[at]
        processes = _split(pids)
        writer = entries.writers[int(pids[-1])]
        if int((np.diff(pids) != 0).sum()) < len(processes):
            yield writer, at
            continue
        for part in processes:
            one = entries.writers[int(pids[part[0]])]
            yield one._replace(host=f"{one.host}/{one.pid}"), at[part]


def _split(values: NDArray[np.int32]) -> list[NDArray[np.intp]]:
    order = np.argsort(values, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(values[order])) + 1)


def _life(entries: Entries, at: NDArray[np.intp], name: str, host: str) -> Life:
    kind, time = entries.kind[at], entries.time[at]
    of_steps = np.flatnonzero(kind == Kind.STEP)
    numbers, times = entries.number[at[of_steps]], time[of_steps]
    step, first = np.unique(numbers, return_index=True)
    _, last = np.unique(numbers[::-1], return_index=True)
    known = time[~np.isnan(time)]
    ends = np.flatnonzero(kind == Kind.JOB_END)
    return Life(
        name=name,
        host=host,
        at=at,
        step=step,
        time=times[::-1][last],
        first_time=times[first],
        low=float(known.min()) if len(known) else 0.0,
        high=float(known.max()) if len(known) else 0.0,
        ended=bool(len(ends)) and (not len(of_steps) or bool(ends[-1] > of_steps[-1])),
    )


def _continues(earlier: Life, later: Life) -> bool:
    """Return whether a process followed another, instead of running beside it."""
    gap = later.low - earlier.high
    same_host = bool(earlier.host) and earlier.host == later.host
    if not same_host and _wrote_in_turns(earlier, later):
        return False
    skew = _difference(earlier, later)
    if skew is None:
        shorter = min(earlier.high - earlier.low, later.high - later.low)
        return gap >= 0 or (not same_host and -gap <= SHORT_OVERLAP * shorter)
    if same_host:
        return gap >= 0
    if earlier.ended and (earlier.step[0], earlier.step[-1]) == (later.step[0], later.step[-1]):
        return False  # a job that has ended is not done again
    return -gap < skew


def _wrote_in_turns(earlier: Life, later: Life) -> bool:
    """Return whether most entries of each process stand between those of the other in the log.

    That shows two that ran side by side even if their clocks differ by more than the job took.
    """
    of_later = np.searchsorted(later.at, earlier.at[-1])
    of_earlier = len(earlier.at) - np.searchsorted(earlier.at, later.at[0])
    return bool(of_later > IN_TURNS * len(later.at) and of_earlier > IN_TURNS * len(earlier.at))


def _difference(earlier: Life, later: Life) -> float | None:
    """Return by how much the clocks of two processes differ if they ran side by side; None without a common step."""
    if not len(earlier.step) or not len(later.step):
        return None
    count = len(later.step)
    sample = np.unique(np.concatenate([np.arange(min(count, SAMPLE)), np.linspace(0, count - 1, SAMPLE).astype(int)]))
    found = np.minimum(np.searchsorted(earlier.step, later.step[sample]), len(earlier.step) - 1)
    common = earlier.step[found] == later.step[sample]
    differences = later.first_time[sample[common]] - earlier.time[found[common]]
    return float(abs(np.median(differences))) if len(differences) else None


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
    joined = _Joined(*_steps_of(workers[chosen]), [part_of(entries, workers[chosen].at)])
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


def _clock_difference(
    step: NDArray[np.int64], time: NDArray[np.float64], other: Worker
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return times by another worker's clock, and by how much it was ahead of the chosen one then."""
    theirs, their_time = _steps_of(other)
    _, at, at_other = np.intersect1d(step, theirs, assume_unique=True, return_indices=True)
    order = np.argsort(their_time[at_other], kind="stable")
    return their_time[at_other][order], (their_time[at_other] - time[at])[order]


def _median_difference(chosen: Worker, other: Worker) -> float:
    ahead = _clock_difference(*_steps_of(chosen), other)[1]
    return float(np.median(ahead)) if len(ahead) else 0.0


class _Joined:
    """The entries that are being put together, as parts of the log by the chosen clock."""

    def __init__(self, step: NDArray[np.int64], time: NDArray[np.float64], parts: list[Entries]) -> None:
        self._step, self._time, self._parts = step, time, parts
        self.continued = 0
        """How many other workers continued after the chosen one had ended, or began before it."""

    def entries(self) -> Entries:
        return reduce(_merged, self._parts)

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
        at, ahead = _clock_difference(self._step, self._time, other)
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
