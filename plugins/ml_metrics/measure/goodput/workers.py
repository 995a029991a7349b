"""The workers that wrote a log, each with all its lives, and the entries of the job by the clock of one of them.

A worker that starts again is the same worker. Clocks of hosts differ. Two writers whose entries alternate in the log
ran at the same time. For others, the difference of clocks that each answer would require decides: the smaller one is
true. Two that ran at the same time began the same steps with a nearly constant difference; if one followed the other,
only the overlap of their times is due to their clocks.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from ml_metrics.measure.goodput.log import NAME_FIELDS, Entries, Kind, Writer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from ml_metrics.measure.goodput.log import Checkpoint, Slices

    Positions = NDArray[np.intp]
    Times = NDArray[np.float64]
    Numbers = NDArray[np.int64]


FEWEST_STEPS = 3
COMMON = 0.8
"""The share of its steps that a worker has in common with the first one, at least."""


def split(kind: NDArray[np.uint8], time: Times, number: Numbers) -> list[Positions]:
    """Return the positions of each worker's entries in a part of a log whose entries do not name their writer."""
    everything = [np.arange(len(kind))]
    steps = np.flatnonzero(kind == Kind.STEP)
    if not _may_be_interleaved(kind, steps, time, number):
        return everything
    # workers that take turns do not always do so in the same order: entries of one step go by their times
    side_by_side = np.cumsum(np.diff(number[steps], prepend=number[steps[0]]) != 0)
    steps = steps[np.lexsort((time[steps], side_by_side))]
    lanes = [steps[lane] for lane in _lanes(number[steps].tolist(), time[steps].tolist()) if len(lane) >= FEWEST_STEPS]
    # the longest lane, and those that ran beside it; others may be parts of these after a restart
    lanes.sort(key=len, reverse=True)
    groups = [lane for at, lane in enumerate(lanes) if not at or _ran_beside(lanes[0], lane, time, number)]
    if len(groups) <= 1:
        return everything
    ahead = [_offset(groups[0], group, time, number)[0] for group in groups]
    order = sorted(range(len(groups)), key=ahead.__getitem__)
    offsets = [ahead[index] - ahead[order[0]] for index in order]
    return _with_events(kind, time, number, [groups[index] for index in order], offsets)


def _may_be_interleaved(kind: NDArray[np.uint8], steps: Positions, time: Times, number: Numbers) -> bool:
    """Return whether steps are repeated as they are when workers write side by side.

    Where a job was started again, times rise throughout, and few steps are lower than the one before. An entry in
    another place is no second worker: by time, one worker repeats steps only after a start.
    """
    if len(steps) < 2 * FEWEST_STEPS:
        return False
    step = number[steps]
    back, repeated = int((step[1:] <= step[:-1]).sum()), len(step) - len(np.unique(step))
    if not back or not repeated:
        return False
    starts = np.sort(time[kind == Kind.JOB_START])
    if (np.diff(time[steps]) < 0).any():
        by_time = steps[np.argsort(time[steps], kind="stable")]
        starts_before = np.searchsorted(starts, time[by_time], "right")
        return bool(((np.diff(number[by_time]) <= 0) & (np.diff(starts_before) == 0)).any())
    return back > len(starts) + 2 and COMMON * repeated <= 4 * back


def _lanes(step: list[int], time: list[float]) -> list[list[int]]:
    """Distribute steps in their order over as few rising sequences as possible.

    A step continues the sequence with the closest lower step. Of several at the same step, it is the one that has
    waited longest, as workers take turns; but one that has waited three times as long as another was stopped.
    With more than 64 sequences, the log is taken to be of one worker.
    """
    lanes: list[list[int]] = []
    for at, (number, moment) in enumerate(zip(step, time, strict=True)):
        fitting = [lane for lane in lanes if step[lane[-1]] < number and time[lane[-1]] <= moment]
        if fitting:
            closest = max(step[lane[-1]] for lane in fitting)
            ages = [(moment - time[lane[-1]], lane) for lane in fitting if step[lane[-1]] == closest]
            active = 3 * min(age for age, _ in ages)
            min((lane for age, lane in ages if age <= active), key=lambda lane: lane[-1]).append(at)
        elif len(lanes) < 64:
            lanes.append([at])
        else:
            return []
    return lanes


def _ran_beside(first: Positions, lane: Positions, time: Times, number: Numbers) -> bool:
    """Whether two lanes have the same steps, at times as far apart as clocks are, and alternate in the log.

    Two that do not alternate may be the logs of two whole jobs, one after the other. Otherwise the second began when
    the first had stopped, and a clock that was set back makes them overlap.
    """
    offset, common = _offset(first, lane, time, number)
    overlap = min(time[lane[-1]], time[first[-1]]) - max(time[lane[0]], time[first[0]])
    if common < max(COMMON * len(lane), 0.5 * len(first)) or not 0 < abs(offset) < overlap:
        return False
    of_first = np.argsort(np.concatenate([first, lane]), kind="stable") < len(first)
    turns = int((of_first[1:] != of_first[:-1]).sum())
    whole = number[first[0]] == number[lane[0]] and number[first[-1]] == number[lane[-1]]
    # each writes many steps at once if they are fast
    return bool(whole) or turns >= max(3, 0.02 * len(lane))


def _offset(one: Positions, other: Positions, time: Times, number: Numbers) -> tuple[float, int]:
    """Return by how much the second lane's clock is ahead, and how many steps both have."""
    _, at_one, at_other = np.intersect1d(number[one], number[other], assume_unique=True, return_indices=True)
    if not len(at_one):
        return 0.0, 0
    return float(np.median(time[other[at_other]] - time[one[at_one]])), len(at_one)


def _with_events(
    kind: NDArray[np.uint8], time: Times, number: Numbers, groups: list[Positions], offsets: list[float]
) -> list[Positions]:
    """Add all other entries. One that another worker recorded, too, comes twice, as far apart as the clocks are."""
    parts = [group.tolist() for group in groups]
    tolerance = min(offset for offset in offsets if offset > 0) / 2
    waiting: dict[tuple[int, int], list[int]] = {}
    for at in np.setdiff1d(np.arange(len(kind)), np.concatenate(groups)).tolist():
        named = int(number[at]) if Kind(kind[at]) in {Kind.STEP, *NAME_FIELDS} else 0
        waiting.setdefault((int(kind[at]), named), []).append(at)
    for entries in waiting.values():
        moments = np.nan_to_num(time[entries])
        order = np.argsort(moments, kind="stable")
        rows, moments = np.array(entries)[order].tolist(), moments[order]
        used: set[int] = set()
        for index, row in enumerate(rows):
            if index in used:
                continue
            parts[0].append(row)
            for part, offset in zip(parts[1:], offsets[1:], strict=True):
                wanted = moments[index] + offset
                low, high = np.searchsorted(moments, [wanted - tolerance, wanted + tolerance])
                near = next((one for one in range(max(int(low), index + 1), int(high)) if one not in used), None)
                if near is not None:
                    used.add(near)
                    part.append(rows[near])
    return [np.sort(np.array(part, np.intp)) for part in parts]


MAX_COMPARED = 100_000
"""How many pairs of processes are compared: a log may name thousands of hosts. Beyond that, each host is a worker."""


@dataclass(frozen=True, slots=True, eq=False)
class Life:
    """The entries of one process."""

    name: str
    host: str
    at: Positions
    """The positions of its entries in the log, rising."""
    step: Numbers
    """Each step once, rising."""
    time: Times
    """When each step started for the last time, by the clock of this process."""
    first_time: Times
    """When each step started for the first time."""
    low: float
    high: float
    """The times of the first and the last entry."""
    ended: bool
    """Whether the job's end is recorded after the last step."""

    @classmethod
    def of(cls, entries: Entries, at: Positions, name: str, host: str) -> Life:
        kind, time = entries.kind[at], entries.time[at]
        of_steps, ends = np.flatnonzero(kind == Kind.STEP), np.flatnonzero(kind == Kind.JOB_END)
        numbers, times = entries.number[at[of_steps]], time[of_steps]
        step, first = np.unique(numbers, return_index=True)
        known = time[~np.isnan(time)] if len(time) else time
        low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 0.0)
        ended = bool(len(ends)) and (not len(of_steps) or bool(ends[-1] > of_steps[-1]))
        return cls(name, host, at, step, _last(numbers, times)[1], times[first], low, high, ended)


def _last(step: Numbers, value: Times) -> tuple[Numbers, Times]:
    """Each step once, rising, and the last of its values."""
    unique, last = np.unique(step[::-1], return_index=True)
    return unique, value[::-1][last]


@dataclass(frozen=True, slots=True, eq=False)
class Worker:
    """One worker: processes that ran one after the other."""

    lives: tuple[Life, ...]

    @property
    def name(self) -> str:
        return self.lives[-1].name

    @property
    def at(self) -> Positions:
        return np.sort(np.concatenate([life.at for life in self.lives]))

    @property
    def steps(self) -> tuple[Numbers, Times]:
        """Its steps, each once, and when they last started."""
        return _last(np.concatenate([one.step for one in self.lives]), np.concatenate([one.time for one in self.lives]))

    @property
    def span(self) -> int:
        """How many steps it went through. It need not have recorded all of them."""
        ends = [int(end) for life in self.lives if len(life.step) for end in (life.step[0], life.step[-1])]
        return max(ends) - min(ends) + 1 if ends else 0


def workers_of(entries: Entries) -> tuple[list[Worker], bool]:
    """Return the workers of a log, and whether some were distinguished by their steps alone."""
    lives: list[Life] = []
    guessed = False
    for writer, at in _by_process(entries):
        parts = split(entries.kind[at], entries.time[at], entries.number[at])
        guessed = guessed or len(parts) > 1
        for index, part in enumerate(parts):
            suffix = f" ({index + 1})" if len(parts) > 1 else ""
            host = f"{writer.host}{suffix}" if writer.host else ""
            lives.append(Life.of(entries, at[part], f"{writer.name or 'the log'}{suffix}", host))
    chains: list[list[Life]] = []
    """The lives that follow each other on one host, the earliest host first."""
    latest: dict[str, list[Life]] = {}
    for life in sorted(lives, key=lambda life: (life.low, life.at[0])):
        chain = latest.get(life.host) if life.host else None
        if chain is not None and _continues(chain[-1], life):
            chain.append(life)
        else:
            latest[life.host] = [life]
            chains.append(latest[life.host])
    workers: list[list[Life]] = []
    compared = 0
    for chain in chains:
        compared += len(workers)
        candidates = workers if compared <= MAX_COMPARED else []
        before = [worker for worker in candidates if _continues(worker[-1], chain[0])]
        if before:
            max(before, key=lambda worker: worker[-1].high).extend(chain)
        else:
            workers.append(chain)
    return [Worker(tuple(worker)) for worker in workers], guessed and len(workers) > 1


def _by_process(entries: Entries) -> Iterator[tuple[Writer, Positions]]:
    """Yield each process and the positions of its entries.

    Processes of one host that wrote into one file one after the other are lives of one worker, and stay together.
    """
    if entries.writer is None:
        yield (entries.writers or (Writer(),))[0], np.arange(len(entries))
        return
    groups: dict[tuple[str, str], int] = {}
    group_of = np.array([groups.setdefault((one.file, one.host), len(groups)) for one in entries.writers], np.int32)
    for at in _by_value(group_of[entries.writer]):
        pids = entries.writer[at]
        processes = _by_value(pids)
        if int((np.diff(pids) != 0).sum()) < len(processes):
            yield entries.writers[int(pids[-1])], at
            continue
        for part in processes:
            one = entries.writers[int(pids[part[0]])]
            yield one._replace(host=f"{one.host}/{one.pid}"), at[part]


def _by_value(values: NDArray[np.int32]) -> list[Positions]:
    order = np.argsort(values, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(values[order])) + 1)


def _continues(earlier: Life, later: Life) -> bool:
    """Return whether a process followed another, instead of running beside it."""
    gap = later.low - earlier.high
    same_host = bool(earlier.host) and earlier.host == later.host
    if not same_host:
        # that they wrote in turns shows that they ran side by side even if clocks differ by more than the job took
        of_later = np.searchsorted(later.at, earlier.at[-1])
        of_earlier = len(earlier.at) - np.searchsorted(earlier.at, later.at[0])
        if of_later > 0.5 * len(later.at) and of_earlier > 0.5 * len(earlier.at):
            return False
    skew = _difference(earlier, later)
    if skew is None:
        shorter = min(earlier.high - earlier.low, later.high - later.low)
        return gap >= 0 or (not same_host and -gap <= 0.1 * shorter)
    if same_host:
        return gap >= 0
    if earlier.ended and (earlier.step[0], earlier.step[-1]) == (later.step[0], later.step[-1]):
        return False  # a job that has ended is not done again
    return -gap < skew


def _difference(earlier: Life, later: Life) -> float | None:
    """By how much the clocks of two processes differ if they ran side by side; None without a common step.

    Sixty-four steps are compared at the beginning, and as many throughout.
    """
    if not len(earlier.step) or not len(later.step):
        return None
    count = len(later.step)
    sample = np.unique(np.concatenate([np.arange(min(count, 64)), np.linspace(0, count - 1, 64).astype(int)]))
    found = np.minimum(np.searchsorted(earlier.step, later.step[sample]), len(earlier.step) - 1)
    common = earlier.step[found] == later.step[sample]
    differences = later.first_time[sample[common]] - earlier.time[found[common]]
    return float(abs(np.median(differences))) if len(differences) else None


def by_one_clock(entries: Entries) -> tuple[Entries, list[Worker], str, list[str]]:
    """Choose a clock, and return the entries by it, the workers, a sentence about the clock, and warnings.

    The log of a single worker is not changed, and has no sentence.
    """
    if entries.writer is None and len(split(entries.kind, entries.time, entries.number)) == 1:
        return entries, [], "", []
    workers, guessed = workers_of(entries)
    if len(workers) == 1:
        return entries, workers, "", []
    chosen = workers[_chosen(entries, workers)]
    others = [worker for worker in workers if worker is not chosen]
    differences = [_clock_difference(*chosen.steps, other)[1] for other in others]
    joined, continued = _joined(entries, chosen, others)
    names, seen = [], Counter[str]()
    for worker in workers:
        seen[worker.name] += 1
        names.append(worker.name if seen[worker.name] == 1 else f"{worker.name} [{seen[worker.name]}]")
    sentence = f"{len(workers)} workers recorded the job; its times are by the clock of {names[workers.index(chosen)]}"
    if continued:
        sentence += f", and after it ended by those of {continued} others, moved by the difference of the clocks"
    warnings = []
    if guessed:
        warnings.append(
            f"the log has entries of {len(workers)} workers that do not name their writer; "
            "their steps show which entry is whose"
        )
    ahead = [float(np.median(one)) if len(one) else 0.0 for one in differences]
    farthest = max(ahead, key=abs)
    if abs(farthest) >= 1:
        other = names[workers.index(others[ahead.index(farthest)])]
        how = "ahead of" if farthest > 0 else "behind"
        warnings.append(f"{sentence}. The clock of {other} is {abs(farthest):.6g} s {how} it")
    return joined, workers, sentence, warnings


def _chosen(entries: Entries, workers: Sequence[Worker]) -> int:
    """The worker whose clock counts.

    Of those that recorded at least half as many steps as any, it is one that recorded the job's start and end, then the
    one with most steps, then the first by name.
    """
    spans = [worker.span for worker in workers]

    def rank(index: int) -> tuple[bool, int, int, str, int]:
        kinds = entries.kind[workers[index].at]
        marks = bool((kinds == Kind.JOB_START).any()) + bool((kinds == Kind.JOB_END).any())
        return spans[index] < 0.5 * max(spans), -marks, -spans[index], workers[index].name, index

    return min(range(len(workers)), key=rank)


def _clock_difference(step: Numbers, time: Times, other: Worker) -> tuple[Times, Times]:
    """Return times by another worker's clock, and by how much it was ahead of the chosen one then."""
    theirs, their_time = other.steps
    _, at, at_other = np.intersect1d(step, theirs, assume_unique=True, return_indices=True)
    order = np.argsort(their_time[at_other], kind="stable")
    return their_time[at_other][order], (their_time[at_other] - time[at])[order]


def _joined(entries: Entries, chosen: Worker, others: Sequence[Worker]) -> tuple[Entries, int]:
    """The entries of the job by the chosen clock, and how many workers went on after its last step or began before it.

    Kinds of entries that the chosen worker lacks come from the worker that has most of them.
    """
    step, time = chosen.steps
    parts, continued = [part_of(entries, chosen.at)], 0
    for other in sorted(others, key=lambda one: one.span, reverse=True):
        clocks = _clock_difference(step, time, other)
        if not len(clocks[0]):
            continue
        moved = part_of(entries, other.at, clocks)
        steps = moved.kind == Kind.STEP
        after = steps & (moved.number > step[-1]) & (moved.time > time[-1])
        before = steps & (moved.number < step[0]) & (moved.time < time[0])
        if before.any():  # the start of the chosen one is not that of the job
            early, kept = np.flatnonzero(moved.time < time[0]), np.flatnonzero(~(parts[0].time < time[0]))
            parts[0] = _merged(part_of(moved, early), part_of(parts[0], kept))
        if after.any():
            parts.append(part_of(moved, np.flatnonzero((moved.time > time[-1]) & ~(steps & ~after))))
        continued += bool(before.any() or after.any())
        step, at = np.unique(np.concatenate([step, moved.number[before], moved.number[after]]), return_index=True)
        time = np.concatenate([time, moved.time[before], moved.time[after]])[at]
    present = set(np.concatenate([part.kind for part in parts]).tolist())
    pairs = [(start, start + 1) for start in range(Kind.JOB_START, Kind.SLICE_COUNTS, 2)]
    for kinds in (*pairs, (Kind.SLICE_COUNTS,), (Kind.SAVE,), (Kind.RESTORE,)):
        counts = [int(np.isin(entries.kind[other.at], kinds).sum()) for other in others]
        if not present.intersection(kinds) and max(counts):
            other = others[counts.index(max(counts))]
            clocks = _clock_difference(step, time, other)
            moved = part_of(entries, other.at, clocks if len(clocks[0]) else None)
            parts.append(part_of(moved, np.flatnonzero(np.isin(moved.kind, kinds))))
    return reduce(_merged, parts), continued


def part_of(entries: Entries, positions: Positions, clocks: tuple[Times, Times] | None = None) -> Entries:
    """Return some entries; with clocks, their times moved back by what their clock was ahead then."""

    def moved(time: float | None) -> float | None:
        return time if time is None or clocks is None else time - float(np.interp(time, *clocks))

    kind, number, time = entries.kind[positions], entries.number[positions].copy(), entries.time[positions]
    if clocks is not None:
        time = time - np.interp(time, *clocks)
    checkpoints: list[Checkpoint] = []
    slices: list[Slices] = []
    for row in np.flatnonzero((kind == Kind.SAVE) | (kind == Kind.RESTORE)).tolist():
        one = entries.checkpoints[number[row]]
        number[row] = len(checkpoints)
        checkpoints.append(one._replace(start=moved(one.start), first_time=moved(one.first_time)))
    for row in np.flatnonzero(kind == Kind.SLICE_COUNTS).tolist():
        count = entries.slices[number[row]]
        number[row] = len(slices)
        slices.append(count._replace(time=moved(count.time) or 0.0))
    changed: dict[str, Any] = {"kind": kind, "time": time, "number": number, "writer": None, "writers": ()}
    return replace(entries, checkpoints=tuple(checkpoints), slices=tuple(slices), **changed)


def _merged(one: Entries, other: Entries) -> Entries:
    """Return the entries of both, those of the second among the first by their times; the first stay in their order."""
    number = other.number.copy()
    number[(other.kind == Kind.SAVE) | (other.kind == Kind.RESTORE)] += len(one.checkpoints)
    number[other.kind == Kind.SLICE_COUNTS] += len(one.slices)
    reached, theirs = (np.maximum.accumulate(np.nan_to_num(each.time, nan=-np.inf)) for each in (one, other))
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
