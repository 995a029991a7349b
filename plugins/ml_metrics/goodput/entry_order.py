"""Putting entries into the order of time, whether they arrived late or a clock was set back.

Everything that analyses entries relies on times that never decrease.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ml_metrics.goodput.entries import Entries, Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray


def order_entries(entries: Entries) -> tuple[Entries, tuple[str, ...]]:
    """Return the entries with times that never decrease, and a warning if times or order had to be changed."""
    time = _every_time(entries)
    origin = float(time.min()) if len(time) else 0.0
    time = time - origin
    entries = replace(entries, time=time, origin=origin)
    backwards = np.diff(time) < 0
    if not backwards.any():
        return entries, ()
    by_time = np.argsort(time, kind="stable")
    if _restarts(entries.kind[by_time], entries.number[by_time]) <= _restarts(entries.kind, entries.number):
        ordered = replace(entries, kind=entries.kind[by_time], time=time[by_time], number=entries.number[by_time])
        return ordered, (f"{int(backwards.sum())} entries were out of order; they were sorted by time",)
    lost = np.concatenate([[0.0], np.cumsum(np.maximum(0.0, -np.diff(time)))])
    warning = (
        f"the clock went back {int(backwards.sum())} times, by {lost[-1]:.6g} s in all; "
        "later times were shifted by as much, and how much time passed in between is unknown"
    )
    return replace(entries, time=time + lost), (warning,)


def _every_time(entries: Entries) -> NDArray[np.float64]:
    """Return the times of all entries. A save or restore, which has no time, has that of the entry before it."""
    if not entries.checkpoints:
        return entries.time
    has_time = ~np.isnan(entries.time)
    if not has_time.any():
        return np.zeros(len(entries))
    before = np.maximum.accumulate(np.where(has_time, np.arange(len(entries)), -1))
    first = int(np.flatnonzero(has_time)[0])
    return entries.time[np.where(before < 0, first, before)]


def _restarts(kind: NDArray[np.uint8], number: NDArray[np.int64]) -> int:
    """Return the number of restarts if the entries are read in this order. A repeated entry is not a restart."""
    step = kind == Kind.STEP
    steps = number[step]
    starts = np.cumsum(kind == Kind.JOB_START)[step]
    return int(((np.diff(steps) < 0) | (np.diff(starts) > 0)).sum())
