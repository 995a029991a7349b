"""A loop that always computes the same: its time shows whether the host has become slower or faster."""

from __future__ import annotations

import time

TURNS, ROUNDS = 20_000, 20


def loop_seconds() -> float:
    """Return the time of the loop, about a millisecond: the fastest of some rounds, since others were interrupted."""
    return min(_round() for _ in range(ROUNDS))


def _round() -> float:
    started, total = time.perf_counter(), 0
    for number in range(TURNS):
        total += number & 7
    return time.perf_counter() - started
