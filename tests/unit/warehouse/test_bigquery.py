"""A dataset in BigQuery as its client uses it: what is sent, what comes back, and what an error says."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from google.api_core.exceptions import BadRequest, RetryError
from google.auth.exceptions import GoogleAuthError
from google.cloud import bigquery

from ml_metrics.core.errors import WarehouseError
from ml_metrics.core.values import BEGINNING_OF_TIME
from ml_metrics.warehouse import TABLES, BigQueryOptions, open_warehouse
from ml_metrics.warehouse.bigquery import BigQueryStore
from unit.warehouse.bigquery_wire import DATASET, PROJECT, Wire, error
from unit.warehouse.records import MONDAY, record

ADDRESS = f"bigquery://{PROJECT}/{DATASET}"


def store(wire: Wire, options: BigQueryOptions | None = None, **more: Any) -> BigQueryStore:
    wire.location = wire.location or "EU"
    return BigQueryStore(PROJECT, DATASET, wire.client(), options, retry_timeout=0.01, **more)


def sent(wire: Wire) -> dict[str, Any]:
    """The configuration of the only job."""
    (job,) = wire.jobs.values()
    assert job["jobReference"]["location"] == "EU"
    return dict(job["configuration"])


def test_a_query_is_sent_with_its_values_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CTX_DAG_ID", "nightly")
    wire = Wire(counted={"runs": 3, "good": 2})
    values = {"test": "resnet", "since": MONDAY, "limit": 7, "share": 0.5, "runs": ["a", "b"]}
    query = "SELECT :limit, ':x:' WHERE test = :test AND uuid IN :runs AND timestamp >= :since AND goodput > :share"
    assert store(wire, deployment="prod").rows(query, values) == [{"runs": 3, "good": 2}]
    job = sent(wire)
    assert job["query"]["query"] == (
        "SELECT @limit, '@x:' WHERE test = @test AND uuid IN UNNEST(@runs) AND timestamp >= @since AND goodput > @share"
    )
    parameters = {one["name"]: (one["parameterType"], one["parameterValue"]) for one in job["query"]["queryParameters"]}
    assert {name: (kind["type"], value.get("value")) for name, (kind, value) in parameters.items()} == {
        "test": ("STRING", "resnet"),
        "since": ("TIMESTAMP", "2026-03-02 12:00:00+00:00"),
        "limit": ("INT64", "7"),
        "share": ("FLOAT64", 0.5),
        "runs": ("ARRAY", None),
    }
    assert parameters["runs"][0]["arrayType"] == {"type": "STRING"}
    assert [one["value"] for one in parameters["runs"][1]["arrayValues"]] == ["a", "b"]
    assert job["labels"] == {"ml_metrics": "query", "deployment": "prod", "test": "resnet", "dag": "nightly"}
    assert job["query"]["defaultDataset"] == {"projectId": PROJECT, "datasetId": DATASET}
    assert "maximumBytesBilled" not in job["query"]


def test_a_query_has_the_limit_of_the_options() -> None:
    wire = Wire(counted={"runs": 0})
    store(wire, BigQueryOptions(maximum_bytes_billed=11 << 20)).rows("SELECT 1", {})
    assert sent(wire)["query"]["maximumBytesBilled"] == str(11 << 20)
    assert sent(wire)["labels"] == {"ml_metrics": "query"}


def test_rows_are_streamed_and_scanned_one_by_one() -> None:
    wire = Wire(counted={"runs": 3})
    assert list(store(wire).stream("SELECT 1", {})) == [{"runs": 3}]
    assert list(store(Wire()).stream("SELECT 1", {})) == []
    fields = [{"name": name, "type": "STRING"} for name in ("uuid", "test_name")]
    wire = Wire(
        tables={"job_history": {"schema": {"fields": fields}}}, stored={"job_history": [["a", "x"], ["b", "y"]]}
    )
    assert list(store(wire).scan("job_history", ["uuid", "test_name"])) == [["a", "x"], ["b", "y"]]
    assert wire.jobs == {}, "it is no query"
    with pytest.raises(WarehouseError) as caught:
        list(store(wire).scan("job_history", ["uuid", "job_name", "owner"]))
    assert str(caught.value) == f"{ADDRESS}: table job_history has no column job_name"


def test_a_change_says_how_many_rows_it_changed() -> None:
    assert store(Wire(affected=2)).change("UPDATE", {}) == 2
    assert store(Wire()).change("UPDATE", {}) == 0
    wire = Wire()
    store(wire).change_all(["DELETE FROM a", "DELETE FROM b"], {"runs": ["x"]})
    statements = "BEGIN TRANSACTION;\nDELETE FROM a;\nDELETE FROM b;\nCOMMIT TRANSACTION;"
    assert sent(wire)["query"]["query"] == statements


def test_a_change_that_is_refused_is_an_error() -> None:
    with pytest.raises(WarehouseError, match="you may not write"):
        store(Wire(refused=error("accessDenied", "you may not write"))).change("UPDATE", {})


@pytest.mark.parametrize(
    ("raised", "said"),
    [
        (BadRequest("two\n  lines"), "two lines"),
        (BadRequest(""), "400"),
        (BadRequest("x" * 501), "x" * 500),
        (RetryError("too late", None), "too late, last exception: None"),
        (GoogleAuthError("no credentials"), "no credentials"),
    ],
)
def test_an_error_is_one_line_with_the_address(raised: Exception, said: str) -> None:
    class Broken(Wire):
        def request(self, *_: object, **__: object) -> Any:
            raise raised

    with pytest.raises(WarehouseError) as caught:
        store(Broken()).plan()
    assert str(caught.value).removesuffix(" ") == f"{ADDRESS}: {said}"


def test_history_is_read_as_far_back_as_the_options_say() -> None:
    assert store(Wire()).horizon == BEGINNING_OF_TIME
    before = datetime.now(UTC)
    horizon = store(Wire(), BigQueryOptions(history_days=30)).horizon
    assert before <= horizon + timedelta(days=30) <= datetime.now(UTC)
    assert store(Wire(), BigQueryOptions(history_days=10**6)).horizon == BEGINNING_OF_TIME
    days = BigQueryOptions(history_days=2)
    assert days.oldest_read(BEGINNING_OF_TIME + timedelta(days=2)) == BEGINNING_OF_TIME
    assert days.oldest_read(BEGINNING_OF_TIME + timedelta(days=3)) == BEGINNING_OF_TIME + timedelta(days=1)


def test_only_a_client_of_its_own_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    given, own = Wire(location="EU", counted={"runs": 1}), Wire(location="EU", counted={"runs": 1})
    one = store(given)
    one.rows("SELECT 1", {})
    one.close()
    assert not given.is_closed
    clients = {PROJECT: own.client()}
    monkeypatch.setattr(bigquery, "Client", lambda project: clients[project])
    unused = BigQueryStore(PROJECT, DATASET)
    unused.close()
    used = BigQueryStore(PROJECT, DATASET)
    used.rows("SELECT 1", {})
    assert not own.is_closed
    used.close()
    assert own.is_closed


def test_the_first_load_makes_what_is_missing_and_says_how_the_columns_are() -> None:
    wire = Wire()
    options = BigQueryOptions("US")
    with open_warehouse(ADDRESS, client=wire.client(), options=options) as warehouse:
        assert warehouse.address == ADDRESS
        warehouse.load(record(0))
        assert [name for name, _ in wire.changes] == [DATASET, *(table.name for table in TABLES)]
        assert len(wire.loads()) == 1
        assert {job["jobReference"]["location"] for job in wire.jobs.values()} == {"US"}
        assert warehouse.plan_schema().changes == ()
    fields = wire.tables["job_history"]["schema"]["fields"]
    next(one for one in fields if one["name"] == "msg_publish_time")["type"] = "STRING"
    with open_warehouse(ADDRESS, client=wire.client(), options=options) as warehouse:
        warehouse.load(record(1))
    (jobs,) = (one for one in wire.loads()[1]["query"]["queryParameters"] if one["name"] == "job_history")
    kinds = {one["name"]: one["type"]["type"] for one in jobs["parameterType"]["arrayType"]["structTypes"]}
    assert kinds["msg_publish_time"] == "STRING"


@pytest.mark.parametrize(
    "address",
    [
        "bigquery://",
        "bigquery://project",
        "bigquery://project/",
        "bigquery:///dataset",
        "bigquery://project/dataset/table",
        "bigquery://project/dataset?location=EU",
        "bigquery://project/dataset#table",
    ],
)
def test_an_address_names_a_project_and_a_dataset_and_no_more(address: str) -> None:
    with pytest.raises(WarehouseError) as caught:
        open_warehouse(address, client=Wire().client())
    assert str(caught.value) == f"{address}: should be bigquery://project/dataset"
