"""The earlier runs of a test and the earlier values of a metric."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ml_metrics.model import BROKEN, HistoryPoint, JobStatus, Outcome

if TYPE_CHECKING:
    from ml_metrics.model import Run
    from ml_metrics.warehouse import JobRow, MetricValue, Warehouse

RUNS = 100
"""How far back a message looks."""


@dataclass(frozen=True, slots=True)
class MetricPast:
    """A metric of a test before this run, oldest first."""

    values: tuple[MetricValue, ...]
    accepted_from: str = ""
    """The first run of the level that a person accepted last."""

    @classmethod
    def of(cls, warehouse: Warehouse, run: Run, metric: str) -> MetricPast:
        """Ask the warehouse."""
        newest = [value for value in warehouse.metrics.values(run.test, metric, RUNS) if value.run_key != run.key]
        accepted = [one for one in warehouse.acceptances.of_test(run.test) if one.metric == metric]
        return cls(tuple(reversed(newest)), accepted[-1].run_key if accepted else "")

    def measured(self, metric: str) -> list[HistoryPoint]:
        """The values of successful runs since the last accepted level, as the judge of levels reads them."""
        return [
            HistoryPoint(value.run_key, value.timestamp, metric, value.value, JobStatus.SUCCESS, None)
            for value in self._since_accepted()
            if value.job_status == JobStatus.SUCCESS
        ]

    def _since_accepted(self) -> tuple[MetricValue, ...]:
        keys = [value.run_key for value in self.values]
        return self.values[keys.index(self.accepted_from) if self.accepted_from in keys else 0 :]

    def judged(self) -> list[tuple[str, bool]]:
        """Which runs had a verdict on this metric, and whether it was broken."""
        known = [value for value in self.values if value.verdict and value.verdict != Outcome.SKIPPED]
        return [(value.run_key, value.verdict in BROKEN) for value in known]


@dataclass(frozen=True, slots=True)
class TestPast:
    """The runs of a test before this one, oldest first."""

    __test__ = False  # pytest would take a class with this name for tests

    jobs: tuple[JobRow, ...]

    @classmethod
    def of(cls, warehouse: Warehouse, run: Run) -> TestPast:
        """Ask the warehouse."""
        return cls(tuple(job for job in reversed(warehouse.runs.newest(run.test, RUNS)) if job.uuid != run.key))

    def ended(self) -> list[tuple[str, bool]]:
        """Which runs there were, and whether their workload failed."""
        return [(job.uuid, job.job_status != JobStatus.SUCCESS) for job in self.jobs]
