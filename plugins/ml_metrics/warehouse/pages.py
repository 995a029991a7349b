"""What the dashboard's pages show, each page with a constant number of queries."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from ml_metrics.values import as_utc
from ml_metrics.warehouse import page_queries
from ml_metrics.warehouse.base import Asking
from ml_metrics.warehouse.record import FARTHEST_POINT, JobRow

if TYPE_CHECKING:
    from collections.abc import Sequence


class ShownRun(NamedTuple):
    """As much of a run as a cell of the heatmap tells. A tuple: thirty thousand are made for a page."""

    run_key: str
    test: str
    dag_id: str
    """Airflow's DAG; for a run of an older system, the test's name."""
    at: datetime
    job_status: str
    verdict: str | None
    failure_reason: str | None
    goodput: float | None = None


@dataclass(frozen=True, slots=True)
class Standing:
    """A test by its newest run."""

    newest: ShownRun
    owner: str
    framework: str
    accelerator: str
    last_good: datetime | None


@dataclass(frozen=True, slots=True)
class ShownMetric:
    """One metric of one run, with the bounds it was judged by."""

    run_key: str
    metric: str
    value: float | None
    lower: float | None
    upper: float | None
    verdict: str | None
    rule: str | None = None
    reference: float | None = None
    """The level of the baseline that the bounds were computed from."""
    spread: float | None = None
    test: str = ""
    dag_id: str = ""
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Incident:
    """Something that people were told about and that is not well again."""

    test: str
    opened_by: str
    opened_at: datetime
    acknowledged_by: str | None
    note: str


@dataclass(frozen=True, slots=True)
class QuarantineRow:
    """Somebody's word that a test is to be kept quiet."""

    test: str
    at: datetime
    until: datetime
    """The end of the quiet; the moment of the word itself if it lifts an earlier one."""
    reason: str
    by: str

    def holds(self, now: datetime) -> bool:
        """Whether the test is still to be kept quiet."""
        return as_utc(now) < self.until


class Shown(Asking):
    """The part of the warehouse that pages ask."""

    def runs_between(self, since: datetime, until: datetime) -> list[ShownRun]:
        """Every run that stopped in a span of time, oldest first."""
        return [_shown_run(row) for row in self._ask(page_queries.RUNS_BETWEEN, **_span(since, until))]

    def standings(self) -> list[Standing]:
        """The newest run of every test, and when the test was last well."""
        found = {row["test_name"]: _standing(row) for row in self._ask(page_queries.STANDINGS)}
        return list(found.values())

    def broken_between(self, since: datetime, until: datetime) -> list[ShownMetric]:
        """Every metric that was out of bounds, missing or no finite number, of runs in a span of time."""
        span = _span(as_utc(since) - FARTHEST_POINT, as_utc(until) + FARTHEST_POINT)
        return [_shown_metric(row) for row in self._ask(page_queries.BROKEN_BETWEEN, **span)]

    def open_incidents(self) -> dict[str, Incident]:
        """The open incident of each test that has one, in one query."""
        return {
            row["test_name"]: Incident(
                row["test_name"], row["opened_by"], row["timestamp"], row["said_by"], row["note"] or ""
            )
            for row in self._ask(page_queries.OPEN_INCIDENTS)
        }

    def runs_of(self, test: str, since: datetime, until: datetime, limit: int) -> list[JobRow]:
        """The newest runs of a test in a span of time, newest first."""
        rows = self._ask(page_queries.RUNS_OF_TEST, test=test, limit=limit, **_span(since, until))
        return [_job(row) for row in rows]

    def metrics_between(self, test: str, since: datetime, until: datetime) -> list[ShownMetric]:
        """Every metric of a test's runs in a span of time, by name."""
        span = _span(since, until)
        rows = self._ask(page_queries.METRICS_OF_TEST, test=test, **span, **_scan(**span))
        return [_shown_metric(row) for row in rows]

    def metric_names(self, tests: Sequence[str], since: datetime, until: datetime) -> list[str]:
        """The metrics that some tests have."""
        if not tests:
            return []
        rows = self._ask(page_queries.METRIC_NAMES, tests=list(tests), **_span(since, until))
        return [row["metric_name"] for row in rows]

    def compared(
        self, tests: Sequence[str], metrics: Sequence[str], since: datetime, until: datetime, limit: int
    ) -> list[ShownMetric]:
        """The values of some metrics of some tests, by metric, test and time."""
        if not tests or not metrics:
            return []
        span = _span(since, until)
        rows = self._ask(
            page_queries.COMPARED, tests=list(tests), metrics=list(metrics), limit=limit, **span, **_scan(**span)
        )
        return [_shown_metric(row) for row in rows]

    def run(self, run_key: str) -> JobRow | None:
        """One run."""
        rows = self._ask(page_queries.RUN, run=run_key)
        return _job(rows[0]) if rows else None

    def run_of_dag(self, dag_id: str, run_id: str) -> JobRow | None:
        """One run, by Airflow's names for it."""
        rows = self._ask(page_queries.RUN_OF_DAG, dag=dag_id, run=run_id)
        return _job(rows[0]) if rows else None

    def test_of_dag(self, dag_id: str) -> str | None:
        """The test that a DAG runs."""
        rows = self._ask(page_queries.TEST_OF_DAG, dag=dag_id)
        return rows[0]["test_name"] if rows else None

    def last_good_run(self, test: str, before: datetime, exclude: str = "") -> JobRow | None:
        """The newest run of a test before a time that was well."""
        rows = self._ask(page_queries.LAST_GOOD_RUN, test=test, before=as_utc(before), run=exclude)
        return _job(rows[0]) if rows else None

    def metadata_of(self, run_key: str) -> dict[str, str]:
        """What else is known about a run."""
        rows = self._ask(page_queries.METADATA_OF_RUN, run=run_key)
        return {row["metadata_key"]: row["metadata_value"] or "" for row in rows}

    def quarantine(
        self, test: str, *, until: datetime, reason: str, by: str, at: datetime | None = None
    ) -> QuarantineRow:
        """Keep a test quiet until a time; a time that is past lifts the quarantine."""
        row = QuarantineRow(test, as_utc(at or datetime.now(UTC)), as_utc(until), reason, by)
        self._change(page_queries.QUARANTINE, test=test, at=row.at, until=row.until, reason=row.reason, said_by=row.by)
        return row

    def quarantines(self) -> dict[str, QuarantineRow]:
        """The newest word about each test that was ever kept quiet; ask it whether it `holds`."""
        return {
            row["test_name"]: QuarantineRow(
                row["test_name"], row["timestamp"], row["until"], row["reason"], row["said_by"]
            )
            for row in self._ask(page_queries.QUARANTINES)
        }


def _span(since: datetime, until: datetime) -> dict[str, datetime]:
    return {"since": as_utc(since), "until": as_utc(until)}


def _scan(since: datetime, until: datetime) -> dict[str, datetime]:
    return {"scan_from": since - FARTHEST_POINT, "scan_to": until + FARTHEST_POINT}


def _job(row: dict[str, Any]) -> JobRow:
    return JobRow(**{field.name: row[field.name] for field in fields(JobRow)})


def _shown_run(row: dict[str, Any]) -> ShownRun:
    return ShownRun(
        row["uuid"],
        row["test_name"],
        row["dag_id"] or row["test_name"],
        row["timestamp"],
        row["job_status"],
        row["verdict"],
        row["failure_reason"],
        row["goodput"],
    )


def _standing(row: dict[str, Any]) -> Standing:
    return Standing(
        newest=_shown_run(row),
        owner=row["owner"] or "",
        framework=row["framework_version"],
        accelerator=row["accelerator"],
        last_good=row["last_good"],
    )


def _shown_metric(row: dict[str, Any]) -> ShownMetric:
    return ShownMetric(
        run_key=row["uuid"],
        metric=row["metric_name"],
        value=row["metric_value"],
        lower=row["metric_lower_bound"],
        upper=row["metric_upper_bound"],
        verdict=row["verdict"],
        rule=row.get("rule"),
        reference=row.get("reference"),
        spread=row.get("spread"),
        test=row.get("test_name", ""),
        dag_id=row.get("dag_id") or row.get("test_name", ""),
        at=row.get("timestamp"),
    )
