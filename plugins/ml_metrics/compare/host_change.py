"""Hosts of a comparison: those that runs were on, and a host that became slower or faster in the middle.

A calibration loop is timed before each run of a command. If its times have two levels, and the values of both versions
have them as well, the host changed, and values from before and after are not compared within a block.

The loop alone proves nothing: on a virtual machine its times drift by more than an effect that matters, and a metric
that does not follow them loses a block for nothing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ml_metrics.compare.arms import arms_of
from ml_metrics.compare.plan import BASE, BLOCK, CANDIDATE
from ml_metrics.compare.verdict import Shift, decide

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ml_metrics.compare.plan import MeasuredRun

LEVEL = 0.01
"""The share of comparisons on an unchanged host in which a change of the host may be reported."""
LEAST_RUNS = 6
"""Runs on each side of a change at the least."""
BEFORE, AFTER = "before the host changed", "after the host changed"
MOST_NAMED = 4
WAYS = ({Shift.HIGHER}, {Shift.LOWER})
"""Both arms went the same way."""


def changed_at(runs: Sequence[MeasuredRun], seconds: Sequence[float], effect: float) -> tuple[int, float] | None:
    """Return the run from which on loop and values differ by the effect or more, and the factor of the loop.

    Args:
        runs: the runs.
        seconds: the time of the loop before each run.
        effect: the smallest change that matters, in percent.
    """
    places = range(LEAST_RUNS, len(seconds) - LEAST_RUNS + 1)
    if not places:
        return None
    middles = [(float(np.median(seconds[:place])), float(np.median(seconds[place:]))) for place in places]
    distances = [
        float(
            np.sum(np.abs(np.asarray(seconds[:place]) - before)) + np.sum(np.abs(np.asarray(seconds[place:]) - after))
        )
        for place, (before, after) in zip(places, middles, strict=True)
    ]
    best = int(np.argmin(distances))
    before, after = middles[best]
    place = places[best]
    found = decide(arms_of([(seconds[:place], seconds[place:])]), effect, LEVEL / len(places))
    if found.shift not in {Shift.HIGHER, Shift.LOWER} or abs(after / before - 1) < effect / 100:
        return None
    # the host may have changed while the run before the change was measured
    return (place, after / before) if _values_differ(runs[: place - 1], runs[place:], effect) else None


def _values_differ(before: Sequence[MeasuredRun], after: Sequence[MeasuredRun], effect: float) -> bool:
    """Return whether any metric went the same way in both arms, by the effect or more."""
    metrics = {metric for run in (*before, *after) for metric in run.values}
    return any({_way(before, after, arm, metric, effect) for arm in (BASE, CANDIDATE)} in WAYS for metric in metrics)


def _way(
    before: Sequence[MeasuredRun], after: Sequence[MeasuredRun], arm: str, metric: str, effect: float
) -> Shift | None:
    """Return whether all later values of an arm are above, or below, all earlier ones; None if neither."""
    early, late = (
        [value for run in side if run.arm == arm and (value := run.values.get(metric)) is not None]
        for side in (before, after)
    )
    if not early or not late:
        return None
    level = float(np.median(early))
    if abs(float(np.median(late)) - level) < abs(level) * effect / 100:
        return None
    if min(late) > max(early):
        return Shift.HIGHER
    return Shift.LOWER if max(late) < min(early) else None


def apart(runs: Sequence[MeasuredRun], place: int) -> list[MeasuredRun]:
    """Return the runs with the side of the change as the host of each."""
    return [
        replace(run, host=f"{run.host} {BEFORE if number < place else AFTER}".strip())
        for number, run in enumerate(runs)
    ]


def note_of_change(place: int, factor: float) -> str:
    """Return a sentence about a host that changed."""
    return (
        f"the host changed before run {place + 1}: the calibration loop takes {factor:.3g} times as long since then."
        " Runs from before and after are not compared within a block"
    )


def notes_of_hosts(hosts: Sequence[str]) -> list[str]:
    """Return a sentence about blocks in which the host changed; values are compared within one host."""
    blocks = [hosts[first : first + BLOCK] for first in range(0, len(hosts), BLOCK)]
    changed = [block for block in blocks if len(set(filter(None, block))) > 1]
    if not changed:
        return []
    names = sorted({host for block in changed for host in block if host})
    where = f"in {len(changed)} of {len(blocks)} blocks ({', '.join(names[:MOST_NAMED])})"
    return [f"the host changed {where}: only runs on the same host are compared there"]
