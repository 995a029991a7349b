"""Tables of every earlier version are upgraded without losing a row, and those of a newer one are left as they are."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa
from google.cloud import bigquery
from sqlalchemy.schema import CreateTable

import golden
from ml_metrics.core.errors import WarehouseError
from ml_metrics.ui import cli
from ml_metrics.warehouse import SCHEMA_VERSION, TABLES, VERSIONS, open_warehouse
from ml_metrics.warehouse.sql import TYPES
from ml_metrics.warehouse.tables import columns_of, version_of
from servers.bigquery import IN_THE_US
from unit.warehouse.older_rows import OLDER_JOB, OLDER_METRIC, check_older_and_newer, connected
from unit.warehouse.records import TEST, record

if TYPE_CHECKING:
    from pathlib import Path

    from servers.bigquery import BigQueryServer

EARLIER = range(1, SCHEMA_VERSION)
ROWS = {"job_history": OLDER_JOB, "metric_history": OLDER_METRIC}
FEW = (1, 2, SCHEMA_VERSION - 1)
"""The versions that are tried on BigQuery, where each takes long: the older system, our first one, and the last."""


def test_every_column_belongs_to_a_version() -> None:
    assert columns_of(SCHEMA_VERSION) == {table.name: table.columns for table in TABLES}


def test_earlier_versions_do_not_change() -> None:
    lines = [
        f"{number} {table}: {', '.join(column.name for column in columns)}\n"
        for number in range(1, SCHEMA_VERSION + 1)
        for table, columns in columns_of(number).items()
    ]
    golden.check("warehouse/versions.txt", "".join(lines))


def test_a_version_adds_nothing_that_must_have_a_value() -> None:
    for table in TABLES:
        first = min(column.since for column in table.columns)
        assert not [column.name for column in table.columns if column.required and column.since > first]


@pytest.mark.parametrize("number", range(SCHEMA_VERSION + 1))
def test_a_version_is_known_by_its_columns(number: int) -> None:
    present = {table: {column.name for column in columns} for table, columns in columns_of(number).items()}
    assert version_of(present) == number
    assert version_of({**present, "of_somebody": {"else"}}) == number


@pytest.mark.parametrize("number", EARLIER)
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_an_earlier_version_is_upgraded(
    kind: str, number: int, request: pytest.FixtureRequest, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    address = f"sqlite:///{tmp_path}/w.db" if kind == "sqlite" else request.getfixturevalue("postgres").new_database()
    _make_tables(address, number)
    before = _columns(address)
    assert cli.main(["schema", "upgrade", "--dry-run", "--warehouse", address]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"schema {number} of {SCHEMA_VERSION}; missing: {VERSIONS[number]}")
    assert "would run: " in out
    assert "Nothing was changed." in out
    assert _columns(address) == before
    with open_warehouse(address) as warehouse:
        check_older_and_newer(warehouse)
        assert (warehouse.plan_schema().version, warehouse.plan_schema().changes) == (SCHEMA_VERSION, ())
    assert cli.main(["schema", "--dry-run", "--warehouse", address]) == 0
    assert capsys.readouterr().out == f"schema {SCHEMA_VERSION} of {SCHEMA_VERSION}\nThere is nothing to change.\n"


@pytest.mark.parametrize("number", FEW)
def test_an_earlier_version_in_bigquery_is_upgraded(bigquery_server: BigQueryServer, number: int) -> None:
    address, client = bigquery_server.new_dataset(), bigquery_server.client()
    dataset = address.removeprefix("bigquery://").replace("/", ".")
    client.create_dataset(dataset)
    for table, columns in columns_of(number).items():
        schema = [
            bigquery.SchemaField(one.name, str(one.kind), mode="REQUIRED" if one.required else "NULLABLE")
            for one in columns
        ]
        made = client.create_table(bigquery.Table(f"{dataset}.{table}", schema=schema))
        if row := dict(zip((one.name for one in columns), ROWS.get(table, ()), strict=False)):
            assert client.insert_rows_json(made, [row]) == []
    with open_warehouse(address, client=client, options=IN_THE_US) as warehouse:
        plan = warehouse.plan_schema()
        assert plan.version == number
        assert _added_by_the_last(number) <= set(plan.changes)
        assert warehouse.plan_schema() == plan, "a plan changes nothing"
        check_older_and_newer(warehouse)
        assert (warehouse.plan_schema().version, warehouse.plan_schema().changes) == (SCHEMA_VERSION, ())
    client.close()


def _added_by_the_last(number: int) -> set[str]:
    """In the words of a plan, for tables of an earlier version."""
    present = columns_of(number)
    columns = {(table.name, one.name) for table in TABLES for one in table.columns if one.since == SCHEMA_VERSION}
    missing = {f"add column {name} to {table}" for table, name in columns if table in present}
    return missing | {f"create table {table}" for table, _ in columns if table not in present}


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_tables_of_a_newer_version_are_loaded_into_and_keep_their_version(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    address = f"sqlite:///{tmp_path}/w.db" if kind == "sqlite" else request.getfixturevalue("postgres").new_database()
    newer = SCHEMA_VERSION + 1
    with open_warehouse(address) as warehouse:
        warehouse.load(record(0))
    mark = f"PRAGMA user_version = {newer}"
    if kind == "postgresql":
        mark = f"COMMENT ON TABLE job_history IS 'ml-metrics schema {newer}'"
    with connected(address) as connection:
        connection.execute(sa.text("ALTER TABLE job_history ADD COLUMN of_the_future TEXT"))
        connection.execute(sa.text(mark))
    with caplog.at_level(logging.WARNING), open_warehouse(address) as warehouse:
        warehouse.load(record(1))
        assert len(warehouse.runs.newest(TEST)) == 2
        assert (warehouse.plan_schema().version, warehouse.plan_schema().is_newer) == (newer, True)
    assert f"are of schema {newer}, and this version of ML Metrics knows {SCHEMA_VERSION}" in caplog.text


def test_a_newer_column_that_must_have_a_value_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path}/w.db"
    _make_tables(address, SCHEMA_VERSION, more=(sa.Column("of_the_future", sa.Text(), nullable=False),), rows=False)
    with open_warehouse(address) as warehouse, pytest.raises(WarehouseError) as caught:
        warehouse.load(record(0))
    assert "column of_the_future: must have a value" in str(caught.value)
    assert "upgrade ML Metrics" in str(caught.value)


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_runs_that_are_there_twice_are_an_error_whose_statement_mends_it(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    address = f"sqlite:///{tmp_path}/w.db" if kind == "sqlite" else request.getfixturevalue("postgres").new_database()
    _make_tables(address, 1)
    _insert(address, "job_history", OLDER_JOB)
    before = _columns(address)
    with open_warehouse(address) as warehouse, pytest.raises(WarehouseError) as caught:
        warehouse.load(record(0))
    message = str(caught.value)
    assert "table job_history: 1 runs have several rows, such as uuid 'older' with 2" in message
    assert _columns(address) == before, "nothing is half done"
    with connected(address) as connection:
        connection.execute(sa.text(message[message.index("DELETE FROM") :]))
    with open_warehouse(address) as warehouse:
        check_older_and_newer(warehouse)


def _make_tables(address: str, number: int, *, more: tuple[sa.Column[str], ...] = (), rows: bool = True) -> None:
    """Create the tables as a version had them, with a run of the older system."""
    with connected(address) as connection:
        for name, columns in columns_of(number).items():
            key = next(table.key for table in TABLES if table.name == name) if number > 1 else ()
            made = sa.Table(
                name,
                sa.MetaData(),
                *(
                    sa.Column(one.name, TYPES[one.kind], nullable=not one.required, primary_key=one.name in key)
                    for one in columns
                ),
                *(more if name == "job_history" else ()),
            )
            connection.execute(CreateTable(made))
    for name in ROWS if rows else ():
        _insert(address, name, ROWS[name])


def _insert(address: str, table: str, row: tuple[object, ...]) -> None:
    with connected(address) as connection:
        names = [column.name for column in columns_of(1)[table]]
        values = ", ".join(f":{name}" for name in names)
        statement = f"INSERT INTO {table} ({', '.join(names)}) VALUES ({values})"
        connection.execute(sa.text(statement), dict(zip(names, row, strict=True)))


def _columns(address: str) -> dict[str, list[str]]:
    with connected(address) as connection:
        found = sa.inspect(connection)
        return {name: [column["name"] for column in found.get_columns(name)] for name in found.get_table_names()}
