"""The jobs of a load, as BigQuery receives them: which failures are tried again, when, and under which id."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from ml_metrics.core.errors import WarehouseError
from ml_metrics.core.model import Outcome
from ml_metrics.warehouse import BigQueryOptions, RunRecord, bigquery, run_record
from ml_metrics.warehouse.bigquery import BigQueryStore
from unit.warehouse.bigquery_wire import DATASET, NAME, PROJECT, Wire, error
from unit.warehouse.records import MONDAY, TEST, metric, record, run_of, verdict, workload

if TYPE_CHECKING:
    from collections.abc import Mapping

TWO_METRICS = record(0, {"a": 1.0, "b": 2.0})
STORED = {"jobs": 1, "metrics": 2}
BUSY = error("backendError")


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses so far, on a clock of their own, each as long as it may be on average."""
    clock, slept = SimpleNamespace(now=100.0), []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        clock.now += seconds

    monkeypatch.setattr(bigquery, "time", SimpleNamespace(monotonic=lambda: clock.now, sleep=sleep))
    monkeypatch.setattr(bigquery.random, "uniform", lambda low, high: (low + high) / 2)
    return slept


def load(
    wire: Wire,
    *records: RunRecord,
    seconds: float = 600.0,
    kinds: Mapping[tuple[str, str], str] | None = None,
    limit: int = 0,
    dataset: str = DATASET,
) -> None:
    options = BigQueryOptions(maximum_bytes_billed=limit)
    store = BigQueryStore(PROJECT, dataset, wire.client(), options, retry_timeout=seconds)
    store.location, store.kinds = "EU", kinds or {}
    store.replace(records or (TWO_METRICS,))


def places(wire: Wire) -> list[str]:
    return [name.rpartition("_")[2] for name in wire.jobs if name.startswith("ml_metrics_load_")]


def parameters(job: Mapping[str, Any]) -> dict[str, list[Any]]:
    """The arrays that a job was sent with, each row as the texts that BigQuery receives."""
    found = {}
    for one in job["query"]["queryParameters"]:
        values = one["parameterValue"]["arrayValues"]
        rows = [value.get("structValues") for value in values]
        found[one["name"]] = [
            {name: field.get("value") for name, field in row.items()} if row else value["value"]
            for row, value in zip(rows, values, strict=True)
        ]
    return found


@pytest.mark.parametrize(
    "failure",
    [
        *map(error, ("backendError", "internalError", "jobBackendError", "jobInternalError", "jobRateLimitExceeded")),
        *map(error, ("quotaExceeded", "rateLimitExceeded", "resourcesExceeded", "tableUnavailable")),
        error("invalidQuery", "Transaction is aborted due to Concurrent Update against table job_history"),
        error("invalidQuery", "Could not serialize access to table job_history"),
        error("invalidQuery", "Too many DML statements outstanding against table job_history"),
        error("invalidQuery", "TransactionContext Error: Failed to commit"),
    ],
    ids=lambda one: f"{one['reason']} {one['message'][:12]}",
)
def test_what_passes_by_itself_is_tried_again_under_the_next_id(pauses: list[float], failure: dict[str, str]) -> None:
    wire = Wire(ends=[failure, failure])
    load(wire)
    assert places(wire) == ["0", "1", "2"]
    assert pauses == [1.0, 2.0]


def test_another_failure_ends_the_load_at_once(pauses: list[float]) -> None:
    wire = Wire(ends=[error("invalidQuery", "No such column")])
    with pytest.raises(WarehouseError) as caught:
        load(wire)
    assert str(caught.value) == f"{NAME}: the load was rejected, and nothing was written: No such column"
    assert (places(wire), pauses) == (["0"], [])


def test_pauses_double_up_to_a_minute(pauses: list[float]) -> None:
    load(Wire(ends=[BUSY] * 9), seconds=1000)
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60, 60]


@pytest.mark.parametrize(("part", "paused"), [(0.0, [0.5, 1.0, 2.0]), (1.0, [1.5, 3.0, 6.0])])
def test_two_writers_do_not_pause_equally_long(
    pauses: list[float], monkeypatch: pytest.MonkeyPatch, part: float, paused: list[float]
) -> None:
    monkeypatch.setattr(bigquery.random, "uniform", lambda low, high: low + (high - low) * part)
    load(Wire(ends=[BUSY] * 3))
    assert pauses == paused


@pytest.mark.parametrize(("seconds", "attempts"), [(0.5, 1), (1.0, 2), (2.9, 2), (3.0, 3), (7.0, 4)])
def test_a_load_gives_up_when_the_next_attempt_would_be_too_late(
    pauses: list[float], seconds: float, attempts: int
) -> None:
    wire = Wire(ends=[BUSY] * 9)
    with pytest.raises(WarehouseError) as caught:
        load(wire, seconds=seconds)
    busy = f"nothing was written; BigQuery was too busy for {seconds:.0f} seconds: backendError"
    assert str(caught.value) == f"{NAME}: {busy}"
    assert (len(places(wire)), len(pauses)) == (attempts, attempts - 1)


def test_a_request_that_is_refused_says_nothing_about_its_job() -> None:
    with pytest.raises(WarehouseError, match="you may not see results"):
        load(Wire(refused=error("accessDenied", "you may not see results")))


def test_a_conflict_about_something_else_is_an_error() -> None:
    with pytest.raises(WarehouseError, match="Already Exists"):
        load(Wire(is_in_conflict=True))


def test_a_writer_finds_its_own_job_only_while_its_rows_are_there() -> None:
    wire = Wire(counted=STORED)
    for _ in range(3):
        load(wire)
    assert places(wire) == ["0"]
    for counted in ({"jobs": 0, "metrics": 2}, {"jobs": 1, "metrics": 1}):
        wire.counted = counted
        load(wire)
    assert places(wire) == ["0", "1", "2"]
    wire.counted = STORED
    load(wire)
    assert places(wire) == ["0", "1", "2"]


def test_rows_are_counted_from_before_the_first_run() -> None:
    wire, runs = Wire(counted={"jobs": 2, "metrics": 3}), [record(3, {"a": 1.0}), record(1, {"a": 1.0, "b": 2.0})]
    for _ in range(2):
        load(wire, *runs)
    assert places(wire) == ["0"]
    *_, count = wire.jobs.values()
    found = {one["name"]: one["parameterValue"] for one in count["configuration"]["query"]["queryParameters"]}
    assert [one["value"] for one in found["runs"]["arrayValues"]] == [run.key for run in runs]
    assert found["since"]["value"] == str(MONDAY - timedelta(days=9))


def test_other_content_takes_the_next_id() -> None:
    wire, other = Wire(counted=STORED), record(0, {"a": 1.0, "b": 3.0})
    for attempt in (TWO_METRICS, other, TWO_METRICS, TWO_METRICS, other):
        load(wire, attempt)
    assert places(wire) == ["0", "1", "2", "3"]
    contents = [job["labels"]["content"] for job in wire.loads()]
    assert contents[0] == contents[2] != contents[1] == contents[3]
    assert {len(one) for one in contents} == {40}


def test_the_time_of_loading_is_no_content() -> None:
    wire = Wire(counted=STORED)
    for day in (1, 2):
        job = replace(TWO_METRICS.job, loaded_at=MONDAY + timedelta(days=day))
        load(wire, replace(TWO_METRICS, job=job))
    assert places(wire) == ["0"]


def test_the_failed_job_of_an_earlier_writer_is_not_ones_own(pauses: list[float]) -> None:
    wire = Wire(ends=[error("invalidQuery")], counted=STORED)
    with pytest.raises(WarehouseError):
        load(wire)
    load(wire)
    assert places(wire) == ["0", "1"]
    assert pauses == []


def test_the_same_runs_in_another_dataset_or_order() -> None:
    """Two datasets do not share a chain of ids; two orders of the same runs do."""
    wire, one, other = Wire(), record(0), record(1)
    load(wire, one, other)
    load(wire, other, one)
    load(wire, one)
    load(wire, one, other, dataset="copy")
    chains = [name.rpartition("_")[0] for name in wire.jobs if name.startswith("ml_metrics_load_")]
    assert chains[0] == chains[1]
    assert len(set(chains)) == 3
    assert {len(chain) for chain in chains} == {len("ml_metrics_load_") + 40}


def test_a_job_has_a_limit_and_names_what_all_its_runs_have() -> None:
    wire = Wire()
    load(wire, record(0), record(1), limit=11 << 20)
    elsewhere = replace(record(2), job=replace(record(2).job, deployment="prod"))
    load(wire, record(3), elsewhere)
    load(wire, record(4), record(4, test="other"))
    load(wire, replace(record(5), job=replace(record(5).job, deployment=None)))
    found = [{name: text for name, text in job["labels"].items() if name != "content"} for job in wire.loads()]
    assert found == [
        {"ml_metrics": "load", "deployment": "local", "test": TEST},
        {"ml_metrics": "load", "test": TEST},
        {"ml_metrics": "load", "deployment": "local"},
        {"ml_metrics": "load", "test": TEST},
    ]
    assert [job["query"].get("maximumBytesBilled") for job in wire.loads()] == [str(11 << 20), None, None, None]
    assert wire.loads()[0]["query"]["defaultDataset"]["datasetId"] == "nightly"
    assert {job["jobReference"]["location"] for job in wire.jobs.values()} == {"EU"}


def test_every_row_is_sent_as_the_column_is() -> None:
    runs = [
        replace(run, job=replace(run.job, msg_publish_time=published))
        for run, published in zip(
            [record(0, {"a": 1.0}), record(1, {"a": 2.0}), TWO_METRICS], (7, "-8", " x"), strict=True
        )
    ]
    wire, usual = Wire(), Wire()
    load(wire, *runs, kinds={("job_history", "msg_publish_time"): "STRING"})
    load(usual, *runs)
    texts, numbers = (parameters(job) for job in (*wire.loads(), *usual.loads()))
    assert texts["runs"] == numbers["runs"] == [run.key for run in runs]
    assert [row["msg_publish_time"] for row in texts["job_history"]] == ["7", "-8", " x"]
    assert [row["msg_publish_time"] for row in numbers["job_history"]] == ["7", "-8", None]
    assert {(row["image"], row["goodput"]) for row in texts["job_history"]} == {(None, None)}
    assert [(row["metric_name"], row["metric_value"]) for row in texts["metric_history"]] == [
        ("a", 1.0), ("a", 2.0), ("a", 1.0), ("b", 2.0),
    ]  # fmt: skip
    kinds = {
        one["name"]: one["type"]["type"]
        for parameter in wire.loads()[0]["query"]["queryParameters"]
        if parameter["name"] == "job_history"
        for one in parameter["parameterType"]["arrayType"]["structTypes"]
    }
    assert (kinds["msg_publish_time"], kinds["num_failures"], kinds["goodput"], kinds["timestamp"]) == (
        "STRING", "INT64", "FLOAT64", "TIMESTAMP",
    )  # fmt: skip


def test_a_run_that_no_request_can_hold_is_an_error() -> None:
    about = {"test_type": "", "accelerator": "", "framework_version": ""}
    measured = [metric("accuracy_final", 0.4), metric("loss_final", 1.0)]
    judged = replace(verdict("accuracy_final", Outcome.FAIL, 0.4), rule="x" * 9_900_000)
    wire = Wire()
    with pytest.raises(WarehouseError) as caught:
        load(wire, run_record(run_of(), workload(), measured, [judged], {}, **about))
    assert f"{NAME}: nothing was written: 2 metrics make a request of 9.9 MB" in str(caught.value)
    assert wire.jobs == {}


def test_an_error_names_the_setting_of_a_limit() -> None:
    needed = "Query exceeded limit for bytes billed: 11534336. 20971520 or higher required."
    with pytest.raises(WarehouseError, match=r"nothing was written: .*MAXIMUM_BYTES_BILLED=20971520$"):
        load(Wire(ends=[error("bytesBilledLimitExceeded", needed)]), limit=11 << 20)


def test_a_load_replaces_the_rows_of_an_earlier_attempt_wherever_its_points_were() -> None:
    """Only metadata of older versions has no time: where each row has one, no partition of such rows is read."""
    wire = Wire()
    load(wire)
    lines = wire.loads()[0]["query"]["query"].split("\n")
    near = "timestamp >= TIMESTAMP_SUB(first_row, INTERVAL 10 DAY)"
    deletions = [line for line in lines if line.startswith("DELETE")]
    assert deletions == [
        f"DELETE FROM job_history WHERE uuid IN UNNEST(@runs) AND ({near});",
        f"DELETE FROM metric_history WHERE uuid IN UNNEST(@runs) AND ({near});",
        f"DELETE FROM metadata_history WHERE uuid IN UNNEST(@runs) AND (timestamp IS NULL OR {near});",
        f"DELETE FROM curve_history WHERE uuid IN UNNEST(@runs) AND ({near});",
        f"DELETE FROM curve_points WHERE uuid IN UNNEST(@runs) AND ({near});",
    ]
    place = [lines.index(one) for one in ("BEGIN TRANSACTION;", deletions[0], "END IF;", "COMMIT TRANSACTION;")]
    assert place == sorted(place)
    inserted = [line.split()[2] for line in lines[place[2] : place[3]] if line.startswith("INSERT")]
    assert inserted == ["job_history", "metric_history", "metadata_history", "curve_history", "curve_points"]
