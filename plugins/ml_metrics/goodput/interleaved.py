"""Telling apart workers that wrote into one log without their names, by the steps that each of them began.

This is only possible if every worker recorded nearly every step: a step is then recorded once by each, and their times
differ by what the clocks differ. A job that was started again also repeats steps, but not side by side.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ml_metrics.goodput.entries import NAME_FIELDS, Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
