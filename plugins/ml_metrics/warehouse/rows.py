"""What the warehouse answers with, beside `JobRow` and the judge's `HistoryPoint`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime


@dataclass(frozen=True, slots=True)
class MetricValue:
    """One metric of one run, with the bounds that it was judged by."""

    run_key: str
    timestamp: datetime
    """When the run stopped."""
    value: float | None
    lower: float | None
    upper: float | None
    job_status: str
    verdict: str | None
    rule: str | None
    baseline_points: int | None
    step: int | None


@dataclass(frozen=True, slots=True)
class TestSummary:
    """How one test stands."""

    __test__ = False  # pytest would take a class with this name for tests

    test: str
    runs: int
    last_run: datetime
    job_status: str
    verdict: str | None
    owner: str | None
    alert_open: bool


@dataclass(frozen=True, slots=True)
class OpenAlert:
    """An incident: something that a person was told about and that is not well again."""

    test: str
    opened_by: str
    """The key of the run that broke first; it names the incident."""
    opened_at: datetime
    fingerprint: str
    """What is broken now, without the numbers."""
    reasons: tuple[str, ...]
    """The reasons that were told last."""
    told_about: tuple[str, ...]
    """The keys of all runs that a message of this incident was about."""
