"""The rows that the warehouse returns, beside `JobRow` and `StoredMetric`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from ml_metrics.values import as_utc

if TYPE_CHECKING:
    from datetime import datetime


class RunSummary(NamedTuple):
    """The columns of a run that a cell of the heatmap shows. A tuple, because a page reads thirty thousand."""

    run_key: str
    test: str
    dag_id: str
    """The DAG in Airflow; for a run of an older system, the test's name."""
    at: datetime
    job_status: str
    verdict: str | None
    failure_reason: str | None
    goodput: float | None = None


@dataclass(frozen=True, slots=True)
class TestStatus:
    """A test with its newest run."""

    __test__ = False  # pytest would collect a class with this name

    newest: RunSummary
    runs: int
    owner: str
    framework: str
    accelerator: str
    last_good: datetime | None


@dataclass(frozen=True, slots=True)
class Incident:
    """An open incident: a test that an alert was sent about and that has not recovered."""

    test: str
    opened_by: str
    """The key of the first broken run, which identifies the incident."""
    opened_at: datetime
    fingerprint: str
    """What is broken now, without the numbers."""
    reasons: tuple[str, ...]
    """The reasons of the last alert."""
    run_keys: tuple[str, ...]
    """The keys of all runs that an alert was sent about."""
    reported: tuple[str, ...] = ()
    """The reasons of all alerts of this incident."""
    acknowledged_by: str | None = None
    acknowledged_at: datetime | None = None
    note: str = ""
    """The note of the user who acknowledged the incident."""

    def document(self) -> dict[str, Any]:
        """Return the incident as a JSON document."""
        return {
            "test": self.test,
            "opened_by": self.opened_by,
            "opened_at": self.opened_at,
            "fingerprint": self.fingerprint,
            "reasons": self.reasons,
            "told_about": self.run_keys,
            "told": self.reported,
            "acknowledged_by": self.acknowledged_by,
            "acknowledged_at": self.acknowledged_at,
            "note": self.note,
        }


@dataclass(frozen=True, slots=True)
class QuarantineRow:
    """A quarantine of a test: its alerts are muted until a time."""

    test: str
    at: datetime
    until: datetime
    """The end of the quarantine; the same as `at` in a row that lifts an earlier one."""
    reason: str
    by: str

    def holds(self, now: datetime) -> bool:
        """Return whether the test is still quarantined."""
        return as_utc(now) < self.until


@dataclass(frozen=True, slots=True)
class Delivery:
    """The state of one message on one channel."""

    message: str
    """The key of the message: the run key and the occasion."""
    channel: str
    state: str
    """`delivered`, `kept` (in the outbox, because the channel failed), `held` for a digest, or `summarised` in one."""
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
