"""The timeline of a job in its document: the intervals that matter most, so that its size is bounded."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ml_metrics.goodput.timeline import Interval

MAX_INTERVALS = 200
"""How many intervals a document has. A job that saves every minute for a week has ten thousand."""


def timeline_document(intervals: Sequence[Interval]) -> dict[str, Any]:
    """Return the longest intervals, in order of time, and how many were left out."""
    longest = sorted(intervals, key=lambda one: one.start - one.end)[:MAX_INTERVALS]
    kept = sorted(longest, key=attrgetter("start"))
    return {
        "intervals": [{"started_at": one.start, "ended_at": one.end, "spent_on": str(one.label)} for one in kept],
        "left_out": len(intervals) - len(kept),
    }
