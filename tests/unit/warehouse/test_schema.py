"""Tables that are there already: the older system's are extended in place, others are refused untouched."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa
from google.cloud import bigquery

from ml_metrics.errors import WarehouseError
from ml_metrics.judge import HistoryNeeds
from ml_metrics.warehouse import Warehouse, open_warehouse
from ml_metrics.warehouse.tables import JOB_HISTORY, METRIC_HISTORY, TABLES
from unit.warehouse.records import MONDAY, TEST, contents, record, run_of

if TYPE_CHECKING:
    from pathlib import Path

    from servers.bigquery import BigQueryServer
    from servers.postgres import PostgresServer

OLDER_JOB = ("older", TEST, "func", "v2-8", "tf", "success", 0, 60, MONDAY.isoformat(), "link", 7, None, None)
OLDER_METRIC = ("older", TEST, MONDAY.isoformat(), "accuracy_final", 0.9, None, None)
OLDER_JOB_TABLE = """
CREATE TABLE job_history (
  uuid TEXT NOT NULL, test_name TEXT NOT NULL, test_type TEXT NOT NULL, accelerator TEXT NOT NULL,
  framework_version TEXT NOT NULL, job_status TEXT NOT NULL, num_failures BIGINT NOT NULL,
  job_duration_sec BIGINT NOT NULL, timestamp TIMESTAMP NOT NULL, stackdriver_logs_link TEXT NOT NULL,
  msg_publish_time {msg_publish_time}, logs_download_command TEXT, kubernetes_workload_link TEXT)
"""
OLDER_METRIC_TABLE = """
CREATE TABLE metric_history (
  uuid TEXT NOT NULL, test_name TEXT NOT NULL, timestamp TIMESTAMP NOT NULL, metric_name TEXT NOT NULL,
  metric_value DOUBLE PRECISION {required}, metric_lower_bound DOUBLE PRECISION, metric_upper_bound DOUBLE PRECISION)
"""


def test_making_tables_twice_is_making_them_once(warehouse: Warehouse) -> None:
    warehouse.load(record(0))
    warehouse.ensure_schema()
    warehouse.ensure_schema()
    assert len(warehouse.runs.newest(TEST)) == 1


@pytest.mark.parametrize("required", ["", "NOT NULL"])
def test_an_older_postgresql_is_extended_in_place(postgres: PostgresServer, required: str) -> None:
    address = postgres.new_database()
    _older_tables(address, OLDER_METRIC_TABLE.format(required=required))
    _check_extended(address)


def test_an_older_sqlite_file_is_extended_in_place(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path}/older.db"
    _older_tables(address, OLDER_METRIC_TABLE.format(required=""))
    _check_extended(address)


def test_an_sqlite_file_that_forbids_null_is_refused(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path}/older.db"
    _older_tables(address, OLDER_METRIC_TABLE.format(required="NOT NULL"))
    with open_warehouse(address) as warehouse, pytest.raises(WarehouseError, match="metric_value: must allow null"):
        warehouse.load(record(0))
    assert _tables(address) == {"job_history", "metric_history"}


def test_a_column_of_another_type_is_named_and_nothing_is_written(postgres: PostgresServer, tmp_path: Path) -> None:
    wrong = OLDER_METRIC_TABLE.format(required="").replace("metric_value DOUBLE PRECISION", "metric_value TEXT")
    for address in (postgres.new_database(), f"sqlite:///{tmp_path}/wrong.db"):
        _older_tables(address, wrong)
        with open_warehouse(address) as warehouse, pytest.raises(WarehouseError) as caught:
            warehouse.load(record(0))
        assert "table metric_history, column metric_value: is of type TEXT and should be DOUBLE" in str(caught.value)
        assert _tables(address) == {"job_history", "metric_history"}


def test_a_table_of_another_system_is_refused(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path}/other.db"
    with _connected(address) as connection:
        connection.execute(sa.text("CREATE TABLE metric_history (job_uuid TEXT, metric_key TEXT, metric_value FLOAT)"))
    with (
        open_warehouse(address) as warehouse,
        pytest.raises(WarehouseError, match=r"no column uuid.*ml-metrics import"),
    ):
        warehouse.load(record(0))


def test_a_file_that_is_no_database_is_an_error_that_names_it(tmp_path: Path) -> None:
    place = tmp_path / "notes.txt"
    place.write_text("not a database, but long enough to look like one" * 100)
    with open_warehouse(f"sqlite:///{place}") as warehouse, pytest.raises(WarehouseError, match=r"notes\.txt"):
        warehouse.runs.tests()


def test_a_folder_that_cannot_be_made_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(WarehouseError, match="file/below"):
        open_warehouse(f"sqlite:///{tmp_path}/file/below/warehouse.db")


@pytest.mark.parametrize("address", ["nonsense", "bigquery://project", "oracle://x", "bigquery:///dataset", ""])
def test_an_address_that_leads_nowhere_is_an_error(address: str) -> None:
    with pytest.raises(WarehouseError):
        open_warehouse(address)


def test_a_password_is_never_shown() -> None:
    with (
        open_warehouse("postgresql+psycopg://me:hunter2@127.0.0.1:1/none?connect_timeout=2") as warehouse,
        pytest.raises(WarehouseError) as caught,
    ):
        warehouse.runs.tests()
    assert "hunter2" not in str(caught.value)
    assert "127.0.0.1:1" in str(caught.value)


def test_bigquery_tables_are_partitioned_clustered_and_described(bigquery_server: BigQueryServer) -> None:
    address, client = bigquery_server.new_dataset(), bigquery_server.client()
    with open_warehouse(address, client=client) as warehouse:
        warehouse.ensure_schema()
    dataset = address.removeprefix("bigquery://").replace("/", ".")
    for table in TABLES:
        made = client.get_table(f"{dataset}.{table.name}")
        partition = made.time_partitioning and (made.time_partitioning.field, made.time_partitioning.type_)
        assert partition == (("timestamp", "DAY") if table.partition else None)
        assert (made.clustering_fields or []) == list(table.cluster)
        assert all(field.description for field in made.schema)
        assert made.description == table.about
    client.close()


def test_an_older_dataset_is_extended_in_place(bigquery_server: BigQueryServer) -> None:
    address, client = bigquery_server.new_dataset(), bigquery_server.client()
    dataset = address.removeprefix("bigquery://").replace("/", ".")
    client.create_dataset(dataset)
    older = {
        "job_history": (JOB_HISTORY.columns[:13], OLDER_JOB),
        "metric_history": (METRIC_HISTORY.columns[:7], OLDER_METRIC),
    }
    for name, (columns, row) in older.items():
        schema = [
            bigquery.SchemaField(
                column.name,
                "STRING" if column.name == "msg_publish_time" else str(column.kind),
                mode="REQUIRED" if column.required or column.name == "metric_value" else "NULLABLE",
            )
            for column in columns
        ]
        table = client.create_table(bigquery.Table(f"{dataset}.{name}", schema=schema))
        values = {column.name: value for column, value in zip(columns, row, strict=True)}
        assert client.insert_rows_json(table, [values]) == []
    with open_warehouse(address, client=client) as warehouse:
        _check_older_and_newer(warehouse)
    client.close()


def test_a_bigquery_column_of_another_type_is_named_and_nothing_is_written(bigquery_server: BigQueryServer) -> None:
    address, client = bigquery_server.new_dataset(), bigquery_server.client()
    dataset = address.removeprefix("bigquery://").replace("/", ".")
    client.create_dataset(dataset)
    schema = [
        bigquery.SchemaField(column.name, "STRING" if column.name == "metric_value" else str(column.kind))
        for column in METRIC_HISTORY.columns
    ]
    client.create_table(bigquery.Table(f"{dataset}.metric_history", schema=schema))
    with open_warehouse(address, client=client) as warehouse, pytest.raises(WarehouseError) as caught:
        warehouse.load(record(0))
    assert "metric_history, column metric_value: is of type STRING and should be FLOAT" in str(caught.value)
    assert [table.table_id for table in client.list_tables(dataset)] == ["metric_history"]
    client.close()


def _check_extended(address: str) -> None:
    with _connected(address) as connection:
        for table, row in (("job_history", OLDER_JOB), ("metric_history", OLDER_METRIC)):
            names = ", ".join(f":v{number}" for number in range(len(row)))
            values = {f"v{number}": value for number, value in enumerate(row)}
            connection.execute(sa.text(f"INSERT INTO {table} VALUES ({names})"), values)
    with open_warehouse(address) as warehouse:
        _check_older_and_newer(warehouse)


def _check_older_and_newer(warehouse: Warehouse) -> None:
    """No row is lost, the older run is history, and a run of ours, with a number that is none, stands beside it."""
    warehouse.load(record(1, {"accuracy_final": float("nan")}))
    assert [run.uuid for run in warehouse.runs.newest(TEST)] == [run_of(1).key, "older"]
    assert contents(warehouse, run_of(1).key) == {"accuracy_final": None}
    needs = HistoryNeeds(tests=(TEST,), window=10, recent=1, earliest=None)
    (point,) = warehouse.metrics.history(needs, exclude=run_of(1).key)
    assert (point.value, point.outcome, point.timestamp) == (0.9, None, MONDAY)
    newer = record(2)
    warehouse.load(replace(newer, metrics=(replace(newer.metrics[0], reference=0.9, spread=0.1),)))
    rows = [*warehouse.metrics.of_run("older"), *warehouse.metrics.of_run(newer.key)]
    assert [(row.reference, row.spread) for row in rows] == [(None, None), (0.9, 0.1)]


def _older_tables(address: str, metric_table: str) -> None:
    with _connected(address) as connection:
        connection.execute(sa.text(OLDER_JOB_TABLE.format(msg_publish_time="BIGINT")))
        connection.execute(sa.text(metric_table))


def _tables(address: str) -> set[str]:
    with _connected(address) as connection:
        return set(sa.inspect(connection).get_table_names())


class _connected:  # noqa: N801  (reads as a word in a `with`)
    """A connection that is given back at the end."""

    def __init__(self, address: str) -> None:
        self._engine = sa.create_engine(address)

    def __enter__(self) -> sa.Connection:
        self._begun = self._engine.begin()
        return self._begun.__enter__()

    def __exit__(self, *error: object) -> None:
        self._begun.__exit__(*error)
        self._engine.dispose()
