"""Consecutive runs with the same problem."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Streak:
    """Consecutive runs with the same problem."""

    first_failed: str
    """The key of the first of them."""
    last_passed: str
    """The key of the run before it; empty if there is none."""
    length: int


def streak_of(run_key: str, earlier: Sequence[tuple[str, bool]]) -> Streak:
    """Return the streak that ends with a failed run. `earlier`: the runs before it, oldest first, True if failed."""
    first, length = run_key, 1
    for key, failed in reversed(earlier):
        if not failed:
            return Streak(first, key, length)
        first, length = key, length + 1
    return Streak(first, "", length)
