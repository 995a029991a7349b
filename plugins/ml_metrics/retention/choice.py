"""The decision which runs of a test are kept."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from ml_metrics.alerts.markers import Markers

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ml_metrics.retention.ages import Ages
    from ml_metrics.retention.stored_runs import StoredRun
    from ml_metrics.warehouse import Incident, Warehouse

MIN_UNFINISHED = timedelta(days=90)
"""How long a run that never finished is kept at least: no run is in progress for so long without a new document."""
MESSAGES_SINCE = timedelta(days=60)
"""Messages that wait for longer are not sent any more."""


@dataclass(frozen=True, slots=True)
class Needed:
    """The run folders that incidents and messages still need."""

    incidents: Mapping[str, Incident]
    """The open incident of each test that has one."""
    run_keys: frozenset[str] = frozenset()
    """The runs whose messages are not sent yet."""

    @classmethod
    def of(cls, storage_root: str, deployment: str, warehouse: Warehouse | None, now: datetime) -> Needed:
        """Return the run folders that are needed now. Without a warehouse there are no incidents."""
        keys = set()
        for marker in Markers.of(storage_root, deployment).all():
            keys.update(f"{marker.run_folder}/{marker.messages}".split("/"))
        if warehouse is None:
            return cls({}, frozenset(keys))
        keys.update(one.run_key for one in warehouse.messages.waiting(now - MESSAGES_SINCE))
        return cls(warehouse.incidents.all_open(), frozenset(keys))

    def why(self, run: StoredRun, ended_at: datetime) -> str:
        """Return why a run is needed; empty if it is not."""
        incident = self.incidents.get(run.test)
        if incident is not None and (run.key in incident.run_keys or ended_at >= incident.opened_at):
            return "open incident"
        return "a message waits" if run.key in self.run_keys else ""


@dataclass(frozen=True, slots=True)
class Choice:
    """A run, and why it is kept."""

    run: StoredRun
    kept: str
    """Empty if it is to be removed."""


def choose(runs: Iterable[StoredRun], ages: Ages, needed: Needed, now: datetime | None = None) -> list[Choice]:
    """Decide about every run of one test."""
    found, now = list(runs), now or datetime.now(UTC)
    good = [run for run in found if run.has_passed and run.ended_at and not (run.is_trial or run.problem)]
    newest_good = max(good, key=lambda run: (run.ended_at, run.key), default=None)
    return [Choice(run, "newest good run" if run is newest_good else why_kept(run, ages, needed, now)) for run in found]


def why_kept(run: StoredRun, ages: Ages, needed: Needed, now: datetime) -> str:
    """Return why a run is kept that is not the newest good one of its test; empty if it is not."""
    if run.problem or run.ended_at is None:
        return run.problem or "its end is unknown"
    return needed.why(run, run.ended_at) or _too_young(run, now - run.ended_at, ages)


def _too_young(run: StoredRun, age_now: timedelta, ages: Ages) -> str:
    age = ages.passed if run.has_passed else ages.failed
    if age is None:
        return "for ever"
    if not run.is_finished:
        age = max(age, MIN_UNFINISHED)
    if age_now < age:
        return "not finished" if not run.is_finished else f"for {age.days} days"
    return ""
