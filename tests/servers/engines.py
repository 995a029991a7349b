"""The warehouse on each engine: SQLite, a real PostgreSQL server, and the real BigQuery client with an emulator."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest
from google.cloud.bigquery.retry import DEFAULT_RETRY

from missing import missing
from ml_metrics.warehouse import Warehouse, bigquery, open_warehouse
from ml_metrics.warehouse import bigquery as bigquery_load
from servers.bigquery import IN_THE_US, BigQueryServer
from servers.postgres import PostgresServer, start_postgres

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

ENGINES = ("sqlite", "postgresql", "bigquery")
Opener = "Callable[[], Warehouse]"


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    server = start_postgres()
    yield server
    server.stop()


def start_bigquery() -> BigQueryServer:
    try:
        return BigQueryServer()
    except subprocess.CalledProcessError as error:
        missing(f"the BigQuery emulator could not be installed (it needs Python 3.13): {error.stderr[-500:]}")


@pytest.fixture(scope="session")
def bigquery_server() -> Iterator[BigQueryServer]:
    server = start_bigquery()
    yield server
    server.stop()


@pytest.fixture
def fast_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the pauses between retries."""
    monkeypatch.setattr(bigquery, "DEFAULT_RETRY", DEFAULT_RETRY.with_delay(initial=0.02, maximum=0.2))
    monkeypatch.setattr(bigquery_load, "FIRST_PAUSE_SECONDS", 0.05)
    monkeypatch.setattr(bigquery_load, "MAX_PAUSE_SECONDS", 1.0)


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def opener(engine: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., Warehouse]]:
    """A function that opens the same, at first missing warehouse on each call, as several processes would."""
    opened: list[Warehouse] = []
    client = postgres = None
    if engine == "sqlite":
        address = f"sqlite:///{tmp_path}/not/there/yet/warehouse.db"
    elif engine == "postgresql":
        postgres = request.getfixturevalue("postgres")
        address = postgres.new_database()
    else:
        server = request.getfixturevalue("bigquery_server")
        address, client = server.new_dataset(), server.client()

    def open_it(*, create: bool = True, deployment: str = "local") -> Warehouse:
        opened.append(open_warehouse(address, create=create, client=client, deployment=deployment, options=IN_THE_US))
        return opened[-1]

    yield open_it
    for warehouse in opened:
        warehouse.close()
    if client:
        client.close()
    if postgres:
        postgres.drop(address)


@pytest.fixture
def warehouse(opener: Callable[[], Warehouse]) -> Warehouse:
    return opener()
