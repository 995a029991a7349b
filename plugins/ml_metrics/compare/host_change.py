"""Hosts of a comparison: those that runs were on, and a host that became slower or faster in the middle.

A calibration loop is timed before each run of a command. If its times have two levels, the host changed, and values
from before and after are not compared within a block.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ml_metrics.compare.arms import arms_of
from ml_metrics.compare.plan import BLOCK
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


def changed_at(seconds: Sequence[float], effect: float) -> tuple[int, float] | None:
    """Return the run from which on the loop takes another time by the effect or more, and its times by the factor.

    Args:
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
    return place, after / before


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
