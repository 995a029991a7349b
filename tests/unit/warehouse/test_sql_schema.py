"""Existing tables in SQLite and PostgreSQL are extended in place or rejected."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from ml_metrics.core.errors import WarehouseError
from ml_metrics.warehouse import open_warehouse
from unit.warehouse.older_rows import OLDER_JOB, OLDER_METRIC, check_older_and_newer, connected
from unit.warehouse.records import record

if TYPE_CHECKING:
    from pathlib import Path

    from servers.postgres import PostgresServer

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


def test_an_older_postgresql_that_forbids_null_is_extended_in_place(postgres: PostgresServer) -> None:
    address = postgres.new_database()
    _older_tables(address, OLDER_METRIC_TABLE.format(required="NOT NULL"))
    _check_extended(address)


def test_an_sqlite_file_that_forbids_null_is_rejected(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path}/older.db"
    _older_tables(address, OLDER_METRIC_TABLE.format(required="NOT NULL"))
    with open_warehouse(address) as warehouse, pytest.raises(WarehouseError, match="metric_value: must allow null"):
        warehouse.load(record(0))
    assert _tables(address) == {"job_history", "metric_history"}


def test_a_column_of_another_type_is_an_error_and_nothing_is_written(postgres: PostgresServer, tmp_path: Path) -> None:
    wrong = OLDER_METRIC_TABLE.format(required="").replace("metric_value DOUBLE PRECISION", "metric_value TEXT")
    for address in (postgres.new_database(), f"sqlite:///{tmp_path}/wrong.db"):
        _older_tables(address, wrong)
        with open_warehouse(address) as warehouse, pytest.raises(WarehouseError) as caught:
            warehouse.load(record(0))
        assert "table metric_history, column metric_value: is of type TEXT and should be DOUBLE" in str(caught.value)
        assert _tables(address) == {"job_history", "metric_history"}


def test_a_table_of_another_system_is_rejected(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path}/other.db"
    with connected(address) as connection:
        connection.execute(sa.text("CREATE TABLE metric_history (job_uuid TEXT, metric_key TEXT, metric_value FLOAT)"))
    with (
        open_warehouse(address) as warehouse,
        pytest.raises(WarehouseError, match=r"no column uuid.*ml-metrics import"),
    ):
        warehouse.load(record(0))


def _check_extended(address: str) -> None:
    with connected(address) as connection:
        for table, row in (("job_history", OLDER_JOB), ("metric_history", OLDER_METRIC)):
            names = ", ".join(f":v{number}" for number in range(len(row)))
            values = {f"v{number}": value for number, value in enumerate(row)}
            connection.execute(sa.text(f"INSERT INTO {table} VALUES ({names})"), values)
    with open_warehouse(address) as warehouse:
        check_older_and_newer(warehouse)


def _older_tables(address: str, metric_table: str) -> None:
    with connected(address) as connection:
        connection.execute(sa.text(OLDER_JOB_TABLE.format(msg_publish_time="BIGINT")))
        connection.execute(sa.text(metric_table))


def _tables(address: str) -> set[str]:
    with connected(address) as connection:
        return set(sa.inspect(connection).get_table_names())
