"""The import of a dataset with the columns job_name, metric_key and metric_value."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa
from google.cloud import bigquery

from ml_metrics.core.errors import WarehouseError
from ml_metrics.warehouse import older_runs, open_warehouse
from unit.warehouse.records import MONDAY, contents

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from servers.bigquery import BigQueryServer

JOBS = [
    {"uuid": "a", "timestamp": MONDAY.isoformat(), "owner": "me", "job_name": "resnet", "job_status": 0},
    {"uuid": "b", "timestamp": MONDAY.isoformat(), "owner": "me", "job_name": "resnet", "job_status": 1},
    {"uuid": "b", "timestamp": MONDAY.isoformat(), "owner": "me", "job_name": "resnet", "job_status": 1},
    {"uuid": "c", "timestamp": MONDAY.isoformat(), "owner": "me", "job_name": "bert", "job_status": 2},
]
METRICS = [
    {"job_uuid": "a", "metric_key": "loss_final", "metric_value": 0.25},
    {"job_uuid": "a", "metric_key": "accuracy_max", "metric_value": 0.75},
    {"job_uuid": "b", "metric_key": "loss_final", "metric_value": 2.0},
    {"job_uuid": "b", "metric_key": "loss_final", "metric_value": 2.0},
]
METADATA = [
    {"job_uuid": "a", "metadata_key": "accelerator", "metadata_value": "v5litepod-16"},
    {"job_uuid": "a", "metadata_key": "dag_id", "metadata_value": "resnet_dag"},
]
TABLES = {"job_history": JOBS, "metric_history": METRICS, "metadata_history": METADATA}
KINDS = {"job_status": "INTEGER", "metric_value": "FLOAT", "timestamp": "TIMESTAMP"}


@pytest.fixture(params=["sqlite", "bigquery"])
def source(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    if request.param == "sqlite":
        yield _in_sqlite(f"sqlite:///{tmp_path}/older.db")
        return
    server: BigQueryServer = request.getfixturevalue("bigquery_server")
    client = server.client()
    monkeypatch.setattr(bigquery, "Client", lambda **_: client)
    yield _in_bigquery(server.new_dataset(), client)
    client.close()


def test_every_run_is_imported_once_however_often_it_is_read(source: str, tmp_path: Path) -> None:
    with open_warehouse(f"sqlite:///{tmp_path}/ours.db") as warehouse:
        for _ in range(2):
            warehouse.load_all(list(older_runs(source)))
        assert [test.newest.test for test in warehouse.runs.tests()] == ["bert", "resnet"]
        assert contents(warehouse, "a") == {"loss_final": 0.25, "accuracy_max": 0.75}
        assert contents(warehouse, "b") == {"loss_final": 2.0}
        runs = {run.uuid: run for run in (*warehouse.runs.newest("resnet"), *warehouse.runs.newest("bert"))}
        assert {key: run.job_status for key, run in runs.items()} == {"a": "success", "b": "failure", "c": "missed"}
        assert (runs["a"].accelerator, runs["a"].dag_id, runs["a"].owner) == ("v5litepod-16", "resnet_dag", "me")
        assert runs["a"].timestamp == MONDAY


def test_bigquery_bills_nothing_for_an_import(bigquery_server: BigQueryServer, monkeypatch: pytest.MonkeyPatch) -> None:
    client = bigquery_server.client()
    monkeypatch.setattr(bigquery, "Client", lambda **_: client)
    source = _in_bigquery(bigquery_server.new_dataset(), client)
    bigquery_server.front.jobs.clear()
    assert len(list(older_runs(source))) == 3
    assert bigquery_server.front.jobs == []
    client.close()


def test_many_runs_are_read_in_the_order_of_their_keys(tmp_path: Path) -> None:
    keys = [f"{number:05}" for number in range(507)]
    jobs = [{**JOBS[0], "uuid": key} for key in reversed(keys)]
    source = _in_sqlite(f"sqlite:///{tmp_path}/older.db", {**TABLES, "job_history": jobs})
    assert [run.key for run in older_runs(source)] == keys


def test_an_unknown_status_is_an_error(tmp_path: Path) -> None:
    source = _in_sqlite(f"sqlite:///{tmp_path}/older.db", {**TABLES, "job_history": [{**JOBS[0], "job_status": 9}]})
    with pytest.raises(WarehouseError, match="run a: job_status is 9"):
        list(older_runs(source))


def test_a_missing_source_is_an_error_and_is_not_created(tmp_path: Path) -> None:
    with pytest.raises(WarehouseError, match=r"typo/older\.db: there is no such file"):
        list(older_runs(f"sqlite:///{tmp_path}/typo/older.db"))
    assert list(tmp_path.iterdir()) == []


def test_a_source_without_tables_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "empty.db").touch()
    with pytest.raises(WarehouseError, match="no such table"):
        list(older_runs(f"sqlite:///{tmp_path}/empty.db"))


def _in_sqlite(address: str, tables: dict[str, list[dict[str, object]]] = TABLES) -> str:
    engine = sa.create_engine(address)
    with engine.begin() as connection:
        for name, rows in tables.items():
            columns = ", ".join(f"{column} {KINDS.get(column, 'TEXT')}" for column in rows[0])
            connection.execute(sa.text(f"CREATE TABLE {name} ({columns})"))
            connection.execute(
                sa.text(f"INSERT INTO {name} VALUES ({', '.join(f':{each}' for each in rows[0])})"), rows
            )
    engine.dispose()
    return address


def _in_bigquery(address: str, client: bigquery.Client) -> str:
    dataset = address.removeprefix("bigquery://").replace("/", ".")
    client.create_dataset(dataset)
    for name, rows in TABLES.items():
        schema = [bigquery.SchemaField(column, KINDS.get(column, "STRING")) for column in rows[0]]
        table = client.create_table(bigquery.Table(f"{dataset}.{name}", schema=schema))
        assert client.insert_rows_json(table, rows) == []
    return address
