"""Runs of other programs are stored once on each engine, whatever happens between, and judged afterwards."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from ml_metrics.core.model import JobStatus, Metric, Outcome
from ml_metrics.measure.histories import PastRun
from ml_metrics.warehouse import (
    import_runs,
    imports,
    marked,
    not_judged,
    record_of,
    stored_runs,
    with_verdicts,
)
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
    monkeypatch.setattr(imports, "PAGE_RUNS", 2)
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


def test_an_imported_run_names_where_it_is_from() -> None:
    made = record_of(past_run(0, owner=""), TEST, "mlflow", "local")
    job = made.job
    assert (job.test_name, job.dag_id, job.run_id, job.owner) == (TEST, TEST, "import__mlflow__run 0", None)
    assert (job.verdict, job.timestamp, job.deployment, job.test_type) == (None, MONDAY, "local", "")
    assert (made.metadata["imported_from"], made.metadata["lr"]) == ("mlflow", "0.1")
    assert len(made.metadata["imported_content"]) == 32
    assert record_of(past_run(0, owner="vera"), TEST, "mlflow", "local").job.owner == "vera"


def test_the_digest_is_of_everything_but_the_time_of_the_import() -> None:
    def digest(**more: Any) -> str | None:
        return record_of(past_run(0, **more), TEST, "mlflow", "local").metadata["imported_content"]

    same = {digest() for _ in range(3)}
    others = [digest(loss=0.25), digest(owner="vera"), digest(status=JobStatus.FAILURE)]
    bare = replace(record_of(past_run(0), TEST, "mlflow", "local"), metadata={})
    assert len(same) == 1
    assert len({*same, *others, marked(bare, "mlflow").metadata["imported_content"]}) == 5


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_a_page_has_a_limit_of_runs_and_of_metrics(
    opener: Callable[[], Warehouse], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run with more metrics than a page may have is a page of its own. The counts are those so far."""
    monkeypatch.setattr(imports, "PAGE_RUNS", 3)
    monkeypatch.setattr(imports, "PAGE_METRICS", 4)
    warehouse = opener()
    loads: list[list[int]] = []
    replaced = warehouse.database.replace
    monkeypatch.setattr(
        warehouse.database, "replace", lambda page: loads.append([len(one.metrics) for one in page]) or replaced(page)
    )

    def runs(*metrics: int) -> Iterator[RunRecord]:
        for number, count in enumerate(metrics):
            named = tuple(Metric(f"m{each}", 1.0, "m", "final") for each in range(count))
            yield record_of(replace(past_run(number), metrics=named), TEST, "mlflow", "local")

    counts = [done.document() for done in import_runs(warehouse, runs(1, 1, 1, 1, 3, 2, 2, 5, 1, 0))]
    assert loads == [[1, 1, 1], [1, 3], [2, 2], [5], [1, 0]]
    assert [one["runs"] for one in counts] == [3, 5, 7, 8, 10]
    assert [one["metrics"] for one in counts] == [3, 7, 11, 16, 17]
    *_, done = import_runs(warehouse, runs(1, 1, 1, 2))
    assert (done.runs, done.metrics, done.there) == (1, 2, 3)
    assert list(import_runs(warehouse, iter(()))) == []


def test_stored_runs_come_whole_and_oldest_first(opener: Callable[[], Warehouse]) -> None:
    warehouse = opener()
    list(import_runs(warehouse, records(3)))
    ends = {run.uuid: run.timestamp for run in warehouse.runs.newest(TEST)}
    found = stored_runs(warehouse, TEST, ends)
    assert [run.job.run_id for run in found] == [f"import__mlflow__run {number}" for number in range(3)]
    made = list(records(3))
    for one, other in zip(found, made, strict=True):
        assert replace(one.job, loaded_at=other.job.loaded_at) == other.job
        assert one.metrics == other.metrics
        assert set(one.metadata) == set(other.metadata)
    (last,) = stored_runs(warehouse, TEST, {found[2].key: found[2].job.timestamp})
    assert last == found[2]
