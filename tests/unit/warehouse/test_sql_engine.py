"""SQLite files that are locked, read-only or not databases."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from threading import Timer
from typing import TYPE_CHECKING

import pytest

from ml_metrics.core.errors import WarehouseError
from ml_metrics.warehouse import open_warehouse, sql
from unit.warehouse.records import TEST, record

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sqlalchemy import Connection


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "warehouse.db"


def test_a_folder_is_not_a_warehouse(tmp_path: Path) -> None:
    with open_warehouse(f"sqlite:///{tmp_path}") as warehouse, pytest.raises(WarehouseError, match=str(tmp_path)):
        warehouse.load(record(0))


def test_a_read_only_file_can_be_read_and_writing_is_an_error(place: Path, become_somebody: Callable[[], None]) -> None:
    with open_warehouse(f"sqlite:///{place}") as writer:
        writer.load(record(0))
        place.chmod(0o444)
        become_somebody()
        with open_warehouse(f"sqlite:///{place}") as reader:
            assert [run.uuid for run in reader.runs.newest(TEST)] == [record(0).key]
            with pytest.raises(WarehouseError, match=r"warehouse\.db.*readonly"):
                reader.load(record(1))


def test_reading_does_not_wait_for_a_writer(place: Path) -> None:
    with open_warehouse(f"sqlite:///{place}") as warehouse:
        warehouse.load(record(0))
    other = sqlite3.connect(place, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    with open_warehouse(f"sqlite:///{place}") as warehouse:
        assert len(warehouse.runs.newest(TEST)) == 1
    other.close()


def test_a_locked_file_is_an_error(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql, "BUSY_TIMEOUT_SECONDS", 0.1)
    with open_warehouse(f"sqlite:///{place}") as warehouse:
        warehouse.load(record(0))
        other = sqlite3.connect(place, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(WarehouseError, match=r"warehouse\.db.*locked"):
            warehouse.load(record(1))
        other.execute("ROLLBACK")
        other.close()
        warehouse.load(record(1))
        assert len(warehouse.runs.newest(TEST)) == 2


COMMITS = """
import sys
from sqlalchemy import Engine, event
from ml_metrics.warehouse import open_warehouse
found = set()
event.listen(Engine, "checkin", lambda file, _: found.update(file.execute("PRAGMA synchronous").fetchone()))
with open_warehouse(sys.argv[1]) as warehouse:
    warehouse.ensure_schema()
print(found)
"""


def test_a_commit_waits_until_it_is_on_the_disk(place: Path) -> None:
    """In a process of its own: those of the tests wait for no disk."""
    command = [sys.executable, "-c", COMMITS, f"sqlite:///{place}"]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout == "{2}\n"


def test_who_has_read_in_order_to_write_is_not_overtaken(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite refuses a transaction that has read, and then writes, if another one has written in between."""
    with open_warehouse(f"sqlite:///{place}") as warehouse:
        warehouse.load(record(0))
    other = sqlite3.connect(place, isolation_level=None, timeout=0)
    other.execute("DROP TABLE senders")
    read, answers = sql.read_catalogue, []

    def read_before_another_writes(connection: Connection) -> sql.Catalogue:
        found = read(connection)
        try:
            other.execute("UPDATE job_history SET owner = 'another'")
            answers.append("written")
        except sqlite3.OperationalError as error:
            answers.append(str(error))
        return found

    monkeypatch.setattr(sql, "read_catalogue", read_before_another_writes)
    with open_warehouse(f"sqlite:///{place}") as warehouse:
        assert len(warehouse.runs.newest(TEST)) == 1
    # the first time the tables are looked at, and the second time they are changed
    assert answers == ["written", "database is locked"]
    assert other.execute("SELECT COUNT(*) FROM senders").fetchone() == (0,)
    other.close()


def test_a_new_file_that_another_process_writes_is_waited_for(place: Path) -> None:
    """SQLite itself does not wait before it changes the journal mode."""
    other = sqlite3.connect(place, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    ending = Timer(0.2, other.execute, ["COMMIT"])
    ending.start()
    with open_warehouse(f"sqlite:///{place}") as warehouse:
        warehouse.load(record(0))
        assert len(warehouse.runs.newest(TEST)) == 1
    ending.join()
    other.close()


def test_a_new_file_that_stays_locked_is_an_error(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql, "BUSY_TIMEOUT_SECONDS", 0.1)
    other = sqlite3.connect(place, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with open_warehouse(f"sqlite:///{place}") as warehouse:
        with pytest.raises(WarehouseError, match=r"warehouse\.db.*locked"):
            warehouse.load(record(0))
        other.close()
        warehouse.load(record(0))


def test_tests_whose_names_differ_by_case_are_two(place: Path) -> None:
    with open_warehouse(f"sqlite:///{place}") as warehouse:
        warehouse.load_all([record(0, {"loss": 1.0, "Loss": 2.0}), record(0, test=TEST.upper())])
        assert [test.newest.test for test in warehouse.runs.tests()] == sorted([TEST, TEST.upper()])
        assert [value.value for value in warehouse.metrics.values(TEST, "Loss")] == [2.0]


def test_a_file_that_is_not_a_database_is_an_error(tmp_path: Path) -> None:
    place = tmp_path / "notes.txt"
    place.write_text("not a database, but long enough to look like one" * 100)
    with open_warehouse(f"sqlite:///{place}") as warehouse, pytest.raises(WarehouseError, match=r"notes\.txt"):
        warehouse.runs.tests()
