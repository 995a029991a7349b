"""The warehouse of an Airflow connection, as tasks open it; BigQuery through the hook of Airflow."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from ml_metrics import connections
from ml_metrics.errors import ConfigError
from servers.bigquery import PROJECT
from servers.engines import bigquery_server, postgres  # noqa: F401  (fixtures)
from unit.warehouse.records import TEST, record

if TYPE_CHECKING:
    from pathlib import Path

VARIABLE = "AIRFLOW_CONN_ML_METRICS_WAREHOUSE"


def _check_stores_a_run(address: str) -> None:
    for _ in range(2):
        with connections.warehouse() as warehouse:
            assert warehouse.address == address
            warehouse.load(record(0))
    with connections.warehouse() as warehouse:
        assert warehouse.runs.newest(TEST) == [record(0).job]
        assert warehouse.metrics.of_run(record(0).key) == list(record(0).metrics)


def test_a_google_connection_is_a_dataset_in_bigquery(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = request.getfixturevalue("bigquery_server")
    address = server.new_dataset()
    connection = {"conn_type": "google_cloud_platform", "extra": {"is_anonymous": True, "project": PROJECT}}
    monkeypatch.setenv(VARIABLE, json.dumps(connection))
    monkeypatch.setenv("BIGQUERY_EMULATOR_HOST", f"http://127.0.0.1:{server.port}")
    monkeypatch.setenv("AIRFLOW__ML_METRICS__DATASET", address.rpartition("/")[2])
    _check_stores_a_run(address)


def test_a_postgres_connection(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    address = request.getfixturevalue("postgres").new_database()
    monkeypatch.setenv(VARIABLE, address.replace("postgresql+psycopg", "postgres"))
    _check_stores_a_run(address)


def test_a_postgres_database_without_an_encoding(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PostgreSQL creates such databases if it is installed without a locale, and psycopg returns bytes from them."""
    address = request.getfixturevalue("postgres").new_database("--encoding=SQL_ASCII", "--template=template0")
    monkeypatch.setenv(VARIABLE, address.replace("postgresql+psycopg", "postgres"))
    _check_stores_a_run(address)
    with connections.warehouse() as warehouse:
        warehouse.load(record(1, values={"Länge_最后": 1.0}))
        assert [row.metric for row in warehouse.metrics.of_run(record(1).key)] == ["Länge_最后"]


def test_an_sqlite_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    address = f"sqlite:///{tmp_path}/warehouse.db"
    monkeypatch.setenv(VARIABLE, address)
    _check_stores_a_run(address)


def test_without_a_connection_the_settings_name_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__ML_METRICS__WAREHOUSE_CONN_ID", "nobody_made_this")
    monkeypatch.setenv("AIRFLOW__ML_METRICS__WAREHOUSE_FILE", str(tmp_path / "mine.db"))
    _check_stores_a_run(f"sqlite:///{tmp_path}/mine.db")


def test_a_connection_of_another_type_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "mysql://me@127.0.0.1/none")
    with pytest.raises(ConfigError, match=r"ml_metrics_warehouse.*mysql"):
        connections.warehouse()
