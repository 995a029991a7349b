"""Sample runs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from ml_metrics.core.model import Bounds, JobStatus, Metric, Outcome, Run, Verdict, Workload
from ml_metrics.warehouse import RunRecord, run_record

if TYPE_CHECKING:
    from collections.abc import Mapping

TEST = "tf-mnist-example-cpu"
MONDAY = datetime(2026, 3, 2, 12, tzinfo=UTC)


def run_of(day: int = 0, test: str = TEST) -> Run:
    return Run(test=test, dag_id=test, run_id=f"scheduled__{day}", deployment="local")


def workload(day: float = 0, status: JobStatus = JobStatus.SUCCESS, **more: object) -> Workload:
    ended = MONDAY + timedelta(days=day)
    return Workload(status=status, started_at=ended - timedelta(minutes=5), ended_at=ended, **more)


def metric(name: str, value: float, **more: object) -> Metric:
    return Metric(name=name, value=value, tag=name, strategy="final", **more)


def verdict(name: str, outcome: Outcome, value: float | None = None, **more: object) -> Verdict:
    return Verdict(metric=name, outcome=outcome, value=value, bounds=Bounds(lower=0.5), rule="greater than 0.5", **more)


def record(
    day: int = 0,
    values: Mapping[str, float] | None = None,
    *,
    test: str = TEST,
    outcomes: Mapping[str, Outcome] | None = None,
    status: JobStatus = JobStatus.SUCCESS,
    metadata: Mapping[str, str] | None = None,
    trial: tuple[str, ...] = (),
) -> RunRecord:
    values = {"accuracy_final": 0.97} if values is None else values
    outcomes = outcomes or {}
    return run_record(
        run_of(day, test),
        workload(day, status),
        [metric(name, value) for name, value in values.items()],
        [verdict(name, outcome, values.get(name)) for name, outcome in outcomes.items()],
        metadata or {},
        test_type="example",
        accelerator="cpu",
        framework_version="tf",
        owner="vision-team",
        loaded_at=MONDAY + timedelta(days=400),
        trial=trial,
    )


def contents(warehouse: object, run_key: str) -> dict[str, float | None]:
    """Return the stored metrics of a run."""
    return {row.metric: row.value for row in warehouse.metrics.of_run(run_key)}
