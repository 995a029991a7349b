"""Runs of other programs are stored once on each engine, whatever happens between, and judged afterwards."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from ml_metrics.collect.histories.history import PastRun
from ml_metrics.model import JobStatus, Metric, Outcome
from ml_metrics.warehouse import imported
from ml_metrics.warehouse.imported import import_runs, not_judged, record_of, stored_runs
from ml_metrics.warehouse.record import with_verdicts
from unit.warehouse.records import MONDAY, verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ml_metrics.warehouse import RunRecord, Warehouse

TEST = "resnet-training"


def past_run(number: int, loss: float = 0.5, **more: Any) -> PastRun:
    metrics = (Metric("loss_final", loss, "loss", "final", 7, MONDAY.timestamp(), 4, 1, 3, "nats", "lower"),)
    at = MONDAY + timedelta(days=number)
    return PastRun(f"run {number}", "resnet", at, metrics, "a file", metadata={"lr": "0.1"}, **more)


def records(count: int) -> Iterator[RunRecord]:
    return (record_of(past_run(number), TEST, "mlflow", "local") for number in range(count))


def test_runs_are_stored_once_and_keep_their_verdicts(
    opener: Callable[[], Warehouse], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The import is killed between pages, begun again, judged, and repeated with a run that differs."""
    monkeypatch.setattr(imported, "PAGE_RUNS", 2)
    begun = import_runs(opener(), records(3))
    assert next(begun).runs == 2
    begun.close()
    warehouse = opener()
    *_, done = import_runs(warehouse, records(3))
    assert (done.runs, done.metrics, done.there) == (1, 1, 2)
    runs = warehouse.runs.newest(TEST)
    assert [(run.verdict, run.job_status, run.run_id) for run in runs] == [
        (None, "success", f"import__mlflow__run {number}") for number in (2, 1, 0)
    ]
    assert not_judged(warehouse) == {TEST: {run.uuid for run in runs}}

    stored = stored_runs(warehouse, TEST, {run.uuid: run.timestamp for run in runs})
    first = stored[0]
    (row,) = first.metrics
    assert (row.outcome, row.value, row.unit, row.better, row.step, row.non_finite) == (
        None,
        0.5,
        "nats",
        "lower",
        7,
        0.25,
    )
    judged = with_verdicts(first, [verdict("loss_final", Outcome.FAIL, 0.5), verdict("absent", Outcome.MISSING)])
    assert replace(judged, job=first.job, metrics=first.metrics) == first
    warehouse.load(judged)
    assert not_judged(warehouse) == {TEST: {run.key for run in stored[1:]}}
    found = {row.metric: row for row in warehouse.metrics.of_run(first.key)}
    assert found["absent"].outcome is Outcome.MISSING
    assert (found["loss_final"].outcome, found["loss_final"].step, found["loss_final"].lower) == (Outcome.FAIL, 7, 0.5)

    changed = record_of(past_run(1, loss=0.75, status=JobStatus.FAILURE), TEST, "mlflow", "local")
    *_, done = import_runs(warehouse, [record_of(past_run(0), TEST, "mlflow", "local"), changed])
    assert (done.runs, done.there) == (1, 1)
    verdicts = {run.uuid: (run.verdict, run.job_status) for run in warehouse.runs.newest(TEST)}
    assert (verdicts[first.key], verdicts[changed.key]) == (("fail", "success"), (None, "failure"))


def test_runs_of_the_same_program_in_two_deployments_are_two() -> None:
    one, other = (record_of(past_run(0), TEST, "mlflow", name) for name in ("local", "prod"))
    assert one.key != other.key
    assert one.key == record_of(past_run(0, loss=9.0), TEST, "mlflow", "local").key
