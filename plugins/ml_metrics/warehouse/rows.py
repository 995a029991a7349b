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
    told: tuple[str, ...] = ()
    """Every reason that was told since it opened."""
    acknowledged_by: str | None = None
    """Who said that they know; None if nobody did."""
    acknowledged_at: datetime | None = None
    note: str = ""
    """What they said."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """What became of one message on one channel."""

    message: str
    """The key of the message: the run's key and the occasion."""
    channel: str
    state: str
    """`delivered`, `kept` (in the outbox, for the channel did not take it), `held` for a digest, or `summarised`."""
    timestamp: datetime
    test: str
    run_key: str
    """Empty for a message about several runs."""
    occasion: str
    owner: str
    recipients: tuple[str, ...]
    subject: str
    reasons: tuple[str, ...]
    attempts: int = 1
    detail: str = ""
    """Where the message is, or why it could not be delivered."""
