"""The warehouse: one set of questions over any engine."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

from ml_metrics.errors import WarehouseError
from ml_metrics.model import HistoryPoint, JobStatus, Outcome
from ml_metrics.values import as_utc
from ml_metrics.warehouse import queries
from ml_metrics.warehouse.incidents import Told
from ml_metrics.warehouse.pages import Shown
from ml_metrics.warehouse.record import FARTHEST_POINT, JobRow, MetricRow
from ml_metrics.warehouse.rows import MetricValue, TestSummary

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ml_metrics.judge import Acceptance, HistoryNeeds
    from ml_metrics.warehouse.record import RunRecord

Word = TypeVar("Word", JobStatus, Outcome)

THE_BEGINNING = datetime(1900, 1, 1, tzinfo=UTC)
THE_END = datetime(9999, 1, 1, tzinfo=UTC)


class Warehouse(Told, Shown):
    """Everything that is remembered about runs. Made by `open_warehouse`; use it in a `with`, or close it."""

    # What happened

    def load(self, record: RunRecord) -> None:
        """Write a run: exactly once, however often it is called, and all tables or none.

        The rows of an earlier attempt of the same run are replaced.
        """
        self.load_all([record])

    def load_all(self, records: Sequence[RunRecord]) -> None:
        """Write some runs in one transaction: for a few hundred at a time, as an import has them."""
        self._ready().replace(records)

    def history(
        self, needs: HistoryNeeds, *, exclude: str = "", before: datetime | None = None, metrics: Iterable[str] = ()
    ) -> list[HistoryPoint]:
        """What came before a run, as far as the judge needs it: one windowed query for all metrics of a test.

        The run `exclude` is never in it, nor is a run that stopped at or after `before`. A run that has no metric is
        there under the metric name ``. `metrics` names metrics that are needed although no recent run may have them.
        """
        span = {"run": exclude, "before": as_utc(before) if before else THE_END}
        return [point for test in needs.tests for point in self._history_of(test, needs, span, set(metrics))]

    def _history_of(
        self, test: str, needs: HistoryNeeds, span: dict[str, Any], metrics: set[str]
    ) -> Iterator[HistoryPoint]:
        earliest = as_utc(needs.earliest) if needs.earliest else THE_BEGINNING
        span = {**span, "test": test, "window": needs.window, "recent": needs.recent}
        starts = {row["kind"]: row for row in self._ask(queries.WHERE_TO_BEGIN, earliest=earliest, **span)}
        if not starts["any"]["runs"]:
            return
        oldest, first = starts["any"]["oldest"], starts["first"]["oldest"]
        if needs.window and first:
            enough = starts["clean"]["runs"] == needs.window
            oldest = min(oldest, starts["clean"]["oldest"] if enough else first)
        rows = self._ask(queries.HISTORY, oldest=oldest, scan_from=oldest - FARTHEST_POINT, **span)
        if first and first < oldest and (short := _short_of_good_values(rows, metrics, needs.window)):
            older = {"oldest": oldest, "earliest": earliest, "scan_from": first - FARTHEST_POINT}
            older |= {name: span[name] for name in ("test", "run", "window")}
            rows = [*self._ask(queries.OLDER_HISTORY, metrics=short, **older), *rows]
        yield from (_history_point(test, row) for row in rows)

    def previous_run(self, test: str, before: datetime | None = None, exclude: str = "") -> JobRow | None:
        """The newest run of a test that stopped before a time and is not the run `exclude`."""
        end = as_utc(before) if before else THE_END
        rows = self._ask(queries.PREVIOUS_RUN, test=test, run=exclude, before=end)
        return _job_row(rows[0]) if rows else None

    def tests(self) -> list[TestSummary]:
        """Every test and how its newest run went, by name."""
        return [
            TestSummary(
                test=row["test_name"],
                runs=row["runs"],
                last_run=row["timestamp"],
                job_status=row["job_status"],
                verdict=row["verdict"],
                owner=row["owner"],
                alert_open=bool(row["alert_open"]),
            )
            for row in self._ask(queries.TESTS)
        ]

    def runs(self, test: str, limit: int = 50) -> list[JobRow]:
        """The newest runs of a test, newest first."""
        return [_job_row(row) for row in self._ask(queries.RUNS, test=test, limit=limit)]

    def metric_values(self, test: str, metric: str, limit: int = 50) -> list[MetricValue]:
        """The newest values of a metric with the bounds they were judged by, newest first."""
        return [
            MetricValue(
                run_key=row["uuid"],
                timestamp=row["timestamp"],
                value=row["metric_value"],
                lower=row["metric_lower_bound"],
                upper=row["metric_upper_bound"],
                job_status=row["job_status"],
                verdict=row["verdict"],
                rule=row["rule"],
                baseline_points=row["baseline_points"],
                step=row["step"],
            )
            for row in self._ask(queries.METRIC_VALUES, test=test, metric=metric, limit=limit)
        ]

    def metrics_of(self, run_key: str) -> list[MetricRow]:
        """The metric rows of one run, by name."""
        rows = self._ask(queries.METRICS_OF_RUN, run=run_key)
        return [MetricRow(**{field.name: row[field.name] for field in fields(MetricRow)}) for row in rows]

    # What a person decided

    def accept(self, run_key: str, metric: str, *, reason: str, by: str, at: datetime | None = None) -> bool:
        """Declare the level that a metric has in a run to be the new normal.

        False if that was declared before, or if the run has no such metric; then nothing changes.
        """
        written = self._change(
            queries.ACCEPT,
            run=run_key,
            metric=metric,
            reason=reason,
            accepted_by=by,
            accepted_at=as_utc(at or datetime.now(UTC)),
        )
        return written > 0

    def acceptances(self, test: str) -> list[Acceptance]:
        """The levels of a test's metrics that were accepted, in the order of their runs."""
        from ml_metrics.judge import Acceptance

        return [
            Acceptance(
                test=row["test_name"],
                metric=row["metric_name"],
                run_key=row["uuid"],
                accepted_at=row["accepted_at"],
                accepted_by=row["accepted_by"],
                reason=row["reason"],
                timestamp=row["timestamp"],
                value=row["metric_value"],
            )
            for row in self._ask(queries.ACCEPTED, test=test)
        ]


def _job_row(row: dict[str, Any]) -> JobRow:
    return JobRow(**{field.name: row[field.name] for field in fields(JobRow)})


def _history_point(test: str, row: dict[str, Any]) -> HistoryPoint:
    return HistoryPoint(
        run_key=row["uuid"],
        timestamp=row["timestamp"],
        metric=row["metric_name"],
        value=row["metric_value"],
        job_status=_known(JobStatus, row, "job_status"),
        outcome=_known(Outcome, row, "verdict") if row["verdict"] is not None else None,
        test=test,
    )


def _short_of_good_values(rows: list[dict[str, Any]], metrics: set[str], window: int) -> list[str]:
    """The metrics that have fewer good values among these rows than a baseline takes."""
    good = Counter(
        row["metric_name"]
        for row in rows
        if row["job_status"] == JobStatus.SUCCESS and row["metric_value"] is not None and row["verdict"] != Outcome.FAIL
    )
    named = metrics.union(row["metric_name"] for row in rows) - {""}
    return sorted(name for name in named if good[name] < window)


def _known(words: type[Word], row: dict[str, Any], column: str) -> Word:
    try:
        return words(row[column])
    except ValueError as error:
        raise WarehouseError(
            f"run {row['uuid']}: column {column} holds {row[column]!r}, which is none of {', '.join(words)}"
        ) from error
