"""What is changed in the tables of an SQLite file, and what is left as it is."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

import pytest

from ml_metrics.core.errors import WarehouseError
from ml_metrics.warehouse import SCHEMA_VERSION, TABLES, Warehouse, open_warehouse, sqlite_address
from unit.warehouse.records import TEST, record

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WITHOUT_KEY = "CREATE TABLE metadata_history (uuid TEXT, metadata_key TEXT, metadata_value TEXT, timestamp TIMESTAMP)"
ALL = {table.name for table in TABLES}


@pytest.fixture
def file(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """The file of a warehouse with one run, as another program sees it."""
    with open_warehouse(sqlite_address(tmp_path / "w.db")) as warehouse:
        warehouse.load(record(0))
    connection = sqlite3.connect(tmp_path / "w.db", isolation_level=None)
    yield connection
    connection.close()


def opened(tmp_path: Path, *, create: bool = True) -> Warehouse:
    return open_warehouse(sqlite_address(tmp_path / "w.db"), create=create)


def changes(tmp_path: Path) -> tuple[str, ...]:
    with opened(tmp_path) as warehouse:
        return warehouse.plan_schema().changes


def names(file: sqlite3.Connection, kind: str) -> set[str]:
    found = file.execute("SELECT name FROM sqlite_master WHERE type = ? AND name NOT LIKE 'sqlite_%'", (kind,))
    return {name for (name,) in found}


def version(file: sqlite3.Connection) -> int:
    return int(file.execute("PRAGMA user_version").fetchone()[0])


def check_is_whole(file: sqlite3.Connection, tmp_path: Path) -> None:
    """Nothing is missing any more, and the run is still there."""
    with opened(tmp_path) as warehouse:
        warehouse.ensure_schema()
        assert [run.uuid for run in warehouse.runs.newest(TEST)] == [record(0).key]
        assert (warehouse.plan_schema().version, warehouse.plan_schema().changes) == (SCHEMA_VERSION, ())
    assert names(file, "table") == ALL
    assert names(file, "index") == {name for table in TABLES for name in table.index_names}


def test_a_new_file_has_every_table_index_and_its_version(file: sqlite3.Connection, tmp_path: Path) -> None:
    assert version(file) == SCHEMA_VERSION
    check_is_whole(file, tmp_path)
    for table in TABLES:
        columns = file.execute('SELECT name, type, "notnull", pk FROM pragma_table_info(?)', (table.name,)).fetchall()
        assert [name for name, *_ in columns] == list(table.names)
        assert {name for name, _, _, place in columns if place} == set(table.key)
        assert {name for name, _, required, _ in columns if required} == {
            *table.key,
            *(one.name for one in table.columns if one.required),
        }


def test_tables_and_indexes_that_are_missing_are_made(file: sqlite3.Connection, tmp_path: Path) -> None:
    file.execute("DROP TABLE senders")
    file.execute("DROP INDEX job_history_regular_standing")
    indexed, created = changes(tmp_path)
    assert indexed.startswith("CREATE INDEX job_history_regular_standing ON job_history (test_name, timestamp,")
    assert created.startswith("CREATE TABLE senders ( deployment TEXT NOT NULL, sender TEXT NOT NULL,")
    check_is_whole(file, tmp_path)


def test_an_index_that_a_newer_one_replaces_is_dropped(file: sqlite3.Connection, tmp_path: Path) -> None:
    file.execute("DROP INDEX job_history_regular_standing")
    for old in ("job_history_standing", "job_history_shown", "of_somebody_else"):
        file.execute(f"CREATE INDEX {old} ON job_history (owner)")
    assert [one.split(" ON ")[0] for one in changes(tmp_path)] == [
        "DROP INDEX job_history_standing",
        "CREATE INDEX job_history_regular_standing",
    ]
    with opened(tmp_path) as warehouse:
        warehouse.ensure_schema()
    # one whose newer one was there is left: somebody made it since
    assert {"job_history_shown", "of_somebody_else"} <= names(file, "index")
    assert "job_history_standing" not in names(file, "index")


def test_a_column_that_is_missing_is_added(file: sqlite3.Connection, tmp_path: Path) -> None:
    file.execute("ALTER TABLE alerts DROP COLUMN cost")
    file.execute("PRAGMA user_version = 3")
    assert changes(tmp_path) == ("ALTER TABLE alerts ADD COLUMN cost TEXT",)
    check_is_whole(file, tmp_path)
    assert version(file) == SCHEMA_VERSION


@pytest.mark.parametrize("mark", [0, SCHEMA_VERSION - 1, SCHEMA_VERSION + 3])
def test_the_version_is_only_written_with_a_change_and_never_lowered(
    file: sqlite3.Connection, tmp_path: Path, mark: int
) -> None:
    file.execute(f"PRAGMA user_version = {mark}")
    with opened(tmp_path) as warehouse:
        warehouse.ensure_schema()
        assert warehouse.plan_schema().version == max(mark, SCHEMA_VERSION)
    assert version(file) == mark
    file.execute("DROP TABLE senders")
    with opened(tmp_path) as warehouse:
        warehouse.ensure_schema()
    assert version(file) == max(mark, SCHEMA_VERSION)


@pytest.mark.parametrize("column", ["TEXT", "TEXT NOT NULL DEFAULT 'x'", "TEXT DEFAULT 'x'"])
def test_columns_of_others_are_left_alone(file: sqlite3.Connection, tmp_path: Path, column: str) -> None:
    file.execute(f"ALTER TABLE job_history ADD COLUMN theirs {column}")
    with opened(tmp_path) as warehouse:
        warehouse.load(record(1))
        assert len(warehouse.runs.newest(TEST)) == 2
        assert warehouse.plan_schema().changes == ()


def test_a_table_without_a_key_gets_a_unique_index(file: sqlite3.Connection, tmp_path: Path) -> None:
    file.execute("DROP TABLE metadata_history")
    file.execute(WITHOUT_KEY)
    assert "CREATE UNIQUE INDEX metadata_history_key ON metadata_history (uuid, metadata_key)" in changes(tmp_path)
    with opened(tmp_path) as warehouse:
        warehouse.ensure_schema()
        assert warehouse.plan_schema().changes == ()
    assert "metadata_history_key" in names(file, "index")
    # with the index alone, the table is as it should be
    assert changes(tmp_path) == ()


def test_rows_with_one_key_are_counted_and_shown(file: sqlite3.Connection, tmp_path: Path) -> None:
    file.execute("DROP TABLE metadata_history")
    file.execute(WITHOUT_KEY)
    rows = [("b", "k"), ("b", "k"), ("a", "k"), ("a", "k"), ("a", "k"), ("a", "l")]
    file.executemany("INSERT INTO metadata_history (uuid, metadata_key) VALUES (?, ?)", rows)
    with opened(tmp_path) as warehouse, pytest.raises(WarehouseError) as caught:
        warehouse.ensure_schema()
    assert "table metadata_history: 2 runs have several rows, such as uuid 'a' and metadata_key 'k' with 3," in str(
        caught.value
    )


def test_an_empty_file_is_only_made_a_warehouse_by_who_may_create_one(tmp_path: Path) -> None:
    (tmp_path / "w.db").touch()
    with opened(tmp_path, create=False) as warehouse, pytest.raises(WarehouseError) as caught:
        warehouse.runs.tests()
    assert str(caught.value).endswith(
        "w.db: has no table job_history. Check the address; the tables are created when the first run is loaded."
    )
    with opened(tmp_path) as warehouse:
        assert warehouse.runs.tests() == []
    with opened(tmp_path, create=False) as warehouse:
        assert warehouse.runs.tests() == []


def test_a_reader_extends_the_tables_of_an_older_warehouse(file: sqlite3.Connection, tmp_path: Path) -> None:
    file.execute("DROP TABLE senders")
    with opened(tmp_path, create=False) as warehouse:
        assert [run.uuid for run in warehouse.runs.newest(TEST)] == [record(0).key]
    assert names(file, "table") == ALL
