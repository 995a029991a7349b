"""A loop that always computes the same: its time shows whether the host has become slower or faster."""

from __future__ import annotations

import statistics
import time

TURNS, ROUNDS = 20_000, 5


def loop_seconds() -> float:
    """Return the time of the loop, about a millisecond: the median of a few rounds."""
    return statistics.median(_round() for _ in range(ROUNDS))


def _round() -> float:
    started, total = time.perf_counter(), 0
    for number in range(TURNS):
        total += number & 7
    return time.perf_counter() - started
