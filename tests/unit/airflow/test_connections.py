"""The warehouse of an Airflow connection, as tasks open it; BigQuery through the hook of Airflow."""

from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import create_engine
from sqlalchemy.engine import make_url

from ml_metrics import ConfigError
from ml_metrics.airflow import connections
from ml_metrics.core.errors import WarehouseError
from ml_metrics.warehouse import libpq_options, open_warehouse, sqlite_address
from servers.bigquery import PROJECT
from servers.channels import tcp_server
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
    extra = {"is_anonymous": True, "project": PROJECT, "location": "EU"}
    connection = {"conn_type": "google_cloud_platform", "extra": extra}
    monkeypatch.setenv(VARIABLE, json.dumps(connection))
    monkeypatch.setenv("BIGQUERY_EMULATOR_HOST", f"http://127.0.0.1:{server.port}")
    monkeypatch.setenv("AIRFLOW__ML_METRICS__DATASET", address.rpartition("/")[2])
    _check_stores_a_run(address)
    client = server.client()
    assert client.get_dataset(address.removeprefix("bigquery://").replace("/", ".")).location == "EU"
    client.close()


def test_a_postgres_connection(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    address = request.getfixturevalue("postgres").new_database()
    monkeypatch.setenv(VARIABLE, address.replace("postgresql+psycopg", "postgres"))
    _check_stores_a_run(address)


@pytest.mark.parametrize("mode", ["require", "verify-ca", "verify-full"])
def test_no_password_is_sent_to_a_server_without_the_tls_that_was_asked_for(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    received: list[bytes] = []

    def answer(connection: socket.socket) -> None:
        received.append(connection.recv(1024))
        connection.sendall(b"N")  # PostgreSQL's word for: no TLS here
        received.append(connection.recv(1024))

    with tcp_server(answer) as port:
        address = f"postgres://me:s3cr3t-password@127.0.0.1:{port}/ml?sslmode={mode}&connect_timeout=5"
        monkeypatch.setenv(VARIABLE, address)
        with pytest.raises(WarehouseError) as caught, connections.warehouse() as warehouse:
            warehouse.ensure_schema()
    assert b"s3cr3t-password" not in b"".join(received)
    assert b"user" not in b"".join(received), "the login began without TLS"
    assert "s3cr3t-password" not in str(caught.value)


def test_every_option_of_the_client_library_is_passed_on(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = request.getfixturevalue("postgres").new_database()
    monkeypatch.setenv(VARIABLE, f"{address.replace('postgresql+psycopg', 'postgres')}?sslmode=require")
    with pytest.raises(WarehouseError, match="SSL"), connections.warehouse() as warehouse:
        warehouse.ensure_schema()
    options = "application_name=ml-metrics-test&sslmode=prefer&keepalives=1"
    monkeypatch.setenv(VARIABLE, f"{address.replace('postgresql+psycopg', 'postgres')}?{options}")
    with connections.warehouse() as warehouse:
        (row,) = warehouse.database.store.rows("SELECT current_setting('application_name') AS name", {})
        assert row["name"] == "ml-metrics-test"
        assert "application_name" not in warehouse.address


@pytest.mark.parametrize(
    ("extra", "reason"),
    [
        ({"ssl_mode": "verify-full"}, "'ssl_mode' in its extra is not an option"),
        ({"SSLMODE": "verify-full"}, "'SSLMODE' in its extra is not an option"),
        ({"host": "elsewhere.example"}, "'host' in its extra is not an option"),
        ({"password": "x"}, "'password' in its extra is not an option"),
        ({"cursor": "dictcursor"}, "'cursor' in its extra is not an option"),
        ({"sslmode": "verify_full"}, "`sslmode` in its extra should be one of"),
        ({"sslmode": True}, "`sslmode` in its extra should be one of"),
        ({"sslrootcert": ["a.pem"]}, "should be a text or a whole number"),
        ({"sslrootcert": None}, "should be a text or a whole number"),
    ],
)
def test_an_option_that_would_have_no_effect_is_an_error(
    extra: dict[str, object], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = {"conn_type": "postgres", "host": "127.0.0.1", "port": 1, "schema": "ml", "extra": extra}
    monkeypatch.setenv(VARIABLE, json.dumps(connection))
    with pytest.raises(ConfigError) as caught:
        connections.warehouse()
    assert reason in str(caught.value)
    assert "`ml_metrics_warehouse`" in str(caught.value)


@pytest.mark.parametrize("extra", ["sslmode=verify-full", "[1]", "{", '"verify-full"'])
def test_an_extra_that_is_no_object_is_an_error(extra: str) -> None:
    with pytest.raises(ConfigError, match="should be a JSON object"):
        libpq_options("mine", extra)


def test_the_options_as_libpq_reads_them() -> None:
    assert libpq_options("mine", "") == libpq_options("mine", None) == {}
    found = libpq_options("mine", '{"sslmode": "verify-full", "sslsni": false, "connect_timeout": 5}')
    assert found == {"sslmode": "verify-full", "sslsni": "0", "connect_timeout": "5"}


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


def test_on_composer_no_file_takes_the_place_of_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if the secrets backend fails, which Airflow reports like a connection that does not exist."""
    monkeypatch.setenv("COMPOSER_ENVIRONMENT", "nightly")
    with pytest.raises(
        WarehouseError, match="`ml_metrics_warehouse` of the warehouse cannot be read or is not defined"
    ):
        connections.warehouse()


def test_an_sqlite_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    address = f"sqlite:///{tmp_path}/warehouse.db"
    monkeypatch.setenv(VARIABLE, address)
    _check_stores_a_run(address)


def test_without_a_connection_the_settings_name_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__ML_METRICS__WAREHOUSE_CONN_ID", "nobody_made_this")
    monkeypatch.setenv("AIRFLOW__ML_METRICS__WAREHOUSE_FILE", str(tmp_path / "mine.db"))
    _check_stores_a_run(f"sqlite:///{tmp_path}/mine.db")


ODD = "a?mode=memory b#c%41d&e=f@g:h\\i.db"
"""A name in which an address has other meanings for most characters."""


@pytest.mark.parametrize("is_connection", [True, False])
def test_a_file_may_have_any_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_connection: bool) -> None:
    place = str(tmp_path / "100%" / ODD)
    if is_connection:
        monkeypatch.setenv(VARIABLE, json.dumps({"conn_type": "sqlite", "host": place}))
    else:
        monkeypatch.setenv("AIRFLOW__ML_METRICS__WAREHOUSE_CONN_ID", "nobody_made_this")
        monkeypatch.setenv("AIRFLOW__ML_METRICS__WAREHOUSE_FILE", place)
    with connections.warehouse() as warehouse:
        warehouse.load(record(0))
    assert {path.name.removesuffix("-wal").removesuffix("-shm") for path in (tmp_path / "100%").iterdir()} == {ODD}
    assert [path.name for path in tmp_path.iterdir()] == ["100%"]
    with open_warehouse(sqlite_address(place), create=False) as warehouse:
        assert warehouse.runs.newest(TEST) == [record(0).job]


def test_a_database_and_a_user_of_postgres_may_have_any_name(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = make_url(request.getfixturevalue("postgres").new_database())
    database, user, password = "d?b #%41/x", "u@:/?#%", "p@:/?#% "
    engine = create_engine(server, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        for statement in (f'CREATE DATABASE "{database}"', f'CREATE ROLE "{user}" SUPERUSER LOGIN'):
            connection.exec_driver_sql(statement.replace("%", "%%"))
    engine.dispose()
    given = {"conn_type": "postgres", "host": server.host, "port": server.port, "schema": database}
    monkeypatch.setenv(
        VARIABLE, json.dumps({**given, "login": user, "password": password, "extra": dict(server.query)})
    )
    with connections.warehouse() as warehouse:
        warehouse.load(record(0))
        found = warehouse.database.store.rows("SELECT current_user AS u, current_database() AS d", {})
        assert found == [{"u": user, "d": database}]
        assert password not in warehouse.address


@pytest.mark.parametrize("address", ["bigquery://project/data?set", "bigquery://project/data#set"])
def test_an_address_of_bigquery_has_no_more_than_a_project_and_a_dataset(address: str) -> None:
    with pytest.raises(WarehouseError, match="should be bigquery://project/dataset"):
        open_warehouse(address)


def test_a_connection_of_another_type_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "mysql://me@127.0.0.1/none")
    with pytest.raises(ConfigError, match=r"ml_metrics_warehouse.*mysql"):
        connections.warehouse()
