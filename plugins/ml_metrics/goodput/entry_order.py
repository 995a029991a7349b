"""From a log as it was written to one that time runs forward in.

Entries may come late, twice, or from a clock that was set back. Everything after this file may rely on times that
never decrease.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ml_metrics.goodput.entries import Entries, Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray


def order_entries(entries: Entries) -> tuple[Entries, tuple[str, ...]]:
    """The same entries with times that never decrease, and what had to be done for it."""
    time = _every_time(entries)
    origin = float(time.min()) if len(time) else 0.0
    time = time - origin
    entries = replace(entries, time=time, origin=origin)
    back = np.diff(time) < 0
    if not back.any():
        return entries, ()
    by_time = np.argsort(time, kind="stable")
    if _restarts(entries.kind[by_time], entries.number[by_time]) <= _restarts(entries.kind, entries.number):
        ordered = replace(entries, kind=entries.kind[by_time], time=time[by_time], number=entries.number[by_time])
        return ordered, (f"{int(back.sum())} entries came out of order; they were sorted by their times",)
    lost = np.concatenate([[0.0], np.cumsum(np.maximum(0.0, -np.diff(time)))])
    warning = (
        f"the clock went back {int(back.sum())} times, by {lost[-1]:.6g} s in all; "
        "later times were moved on by as much, and the time in between is unknown"
    )
    return replace(entries, time=time + lost), (warning,)


def _every_time(entries: Entries) -> NDArray[np.float64]:
    """The times of all entries: a save or restore, which has none, happened at the time of the entry before it."""
    if not entries.checkpoints:
        return entries.time
    known = ~np.isnan(entries.time)
    if not known.any():
        return np.zeros(len(entries))
    before = np.maximum.accumulate(np.where(known, np.arange(len(entries)), -1))
    first = int(np.flatnonzero(known)[0])
    return entries.time[np.where(before < 0, first, before)]


def _restarts(kind: NDArray[np.uint8], number: NDArray[np.int64]) -> int:
    """How often training begins anew if the entries are read in this order. A step told twice is no restart."""
    step = kind == Kind.STEP
    steps = number[step]
    starts = np.cumsum(kind == Kind.JOB_START)[step]
    return int(((np.diff(steps) < 0) | (np.diff(starts) > 0)).sum())
