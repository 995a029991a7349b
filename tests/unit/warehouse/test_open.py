"""Addresses that can be opened and addresses that cannot; `create=False` creates nothing."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

import pytest

from ml_metrics.errors import WarehouseError
from ml_metrics.warehouse import Warehouse, open_warehouse
from unit.warehouse.records import TEST, record

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ml_metrics.warehouse import Warehouse


def test_a_missing_warehouse_is_an_error_until_a_run_is_loaded(
    opener: Callable[..., Warehouse], tmp_path: Path
) -> None:
    for _ in range(2):  # a second attempt shows that the first created nothing
        with pytest.raises(WarehouseError, match=r"no such file|does not exist|has no table.*Check"):
            opener(create=False).runs.tests()
    assert list(tmp_path.iterdir()) == []
    opener().load(record(0))
    assert [run.uuid for run in opener(create=False).runs.newest(TEST)] == [record(0).key]


def test_an_existing_warehouse_can_be_written_without_create(opener: Callable[..., Warehouse]) -> None:
    opener().load(record(0))
    opener(create=False).load(record(1))
    assert len(opener().runs.newest(TEST)) == 2


def test_another_systems_database_is_left_as_it_is(tmp_path: Path) -> None:
    place = tmp_path / "other.db"
    with sqlite3.connect(place) as other:
        other.execute("CREATE TABLE thing (name TEXT)")
    before = place.read_bytes()
    with (
        open_warehouse(f"sqlite:///{place}", create=False) as warehouse,
        pytest.raises(WarehouseError, match=r"other\.db: has no table job_history\. Check"),
    ):
        warehouse.runs.tests()
    assert place.read_bytes() == before


def test_a_home_folder_in_an_address_is_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with open_warehouse("sqlite:///~/folder/warehouse.db") as warehouse:
        warehouse.load(record(0))
    assert (tmp_path / "folder" / "warehouse.db").exists()


def test_a_folder_that_cannot_be_created_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(WarehouseError, match="file/below"):
        open_warehouse(f"sqlite:///{tmp_path}/file/below/warehouse.db")


@pytest.mark.parametrize("address", ["nonsense", "bigquery://project", "oracle://x", "bigquery:///dataset", ""])
def test_an_invalid_address_is_an_error(address: str) -> None:
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
