"""Opening a warehouse by its address, and loading runs, on every engine."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from ml_metrics.core.errors import WarehouseError
from ml_metrics.core.model import JobStatus, Outcome
from ml_metrics.warehouse import JobRow, Warehouse, open_warehouse
from unit.warehouse.records import TEST, contents, record, run_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def test_a_run_is_read_back_as_it_was_loaded(warehouse: Warehouse) -> None:
    run = record(0, {"accuracy_final": 0.97, "loss_final": 0.1}, outcomes={"accuracy_final": Outcome.PASS})
    warehouse.load(run)
    assert warehouse.runs.newest(TEST) == [run.job]
    assert warehouse.metrics.of_run(run.key) == list(run.metrics)


def test_loading_twice_changes_nothing(warehouse: Warehouse) -> None:
    run = record(0)
    warehouse.load(run)
    warehouse.load(run)
    assert [len(warehouse.runs.newest(TEST)), len(warehouse.metrics.of_run(run.key))] == [1, 1]


def test_a_later_attempt_replaces_every_row_of_the_earlier_one(warehouse: Warehouse) -> None:
    warehouse.load(record(0, {"accuracy_final": 0.1, "gone_final": 1.0}, metadata={"image": "old", "gone": "x"}))
    warehouse.load(record(0, {"accuracy_final": 0.9, "new_final": 2.0}, metadata={"image": "new"}))
    assert contents(warehouse, run_of(0).key) == {"accuracy_final": 0.9, "new_final": 2.0}
    assert len(warehouse.runs.newest(TEST)) == 1


def test_an_attempt_with_the_content_of_an_earlier_one_is_written(warehouse: Warehouse) -> None:
    first, second = record(0, {"accuracy_final": 0.1}), record(0, {"accuracy_final": 0.2})
    for attempt in (first, second, first):
        warehouse.load(attempt)
    assert contents(warehouse, first.key) == {"accuracy_final": 0.1}


def test_other_runs_are_left_alone(warehouse: Warehouse) -> None:
    warehouse.load(record(1, {"accuracy_final": 0.5}))
    warehouse.load(record(2, {"accuracy_final": 0.6}))
    warehouse.load(record(2, {"accuracy_final": 0.7}))
    assert contents(warehouse, run_of(1).key) == {"accuracy_final": 0.5}


def test_a_run_without_metrics_is_a_row(warehouse: Warehouse) -> None:
    warehouse.load(record(0, {}, status=JobStatus.MISSED))
    (run,) = warehouse.runs.newest(TEST)
    assert (run.job_status, run.verdict) == ("missed", "fail")


def test_a_run_with_an_invalid_row_is_not_written(warehouse: Warehouse) -> None:
    good = record(0)
    warehouse.load(good)
    bad = record(0, {"accuracy_final": 0.5, "loss_final": 0.1})
    timeless = replace(bad.metrics[0], metric="other", timestamp=None, written_at=None)
    broken = replace(bad, metrics=(*bad.metrics, timeless))
    with pytest.raises(WarehouseError):
        warehouse.load(broken)
    assert warehouse.metrics.of_run(good.key) == list(good.metrics)
    assert warehouse.runs.newest(TEST) == [good.job]


def test_many_runs_are_loaded_together(warehouse: Warehouse) -> None:
    warehouse.load(record(3, {"accuracy_final": 0.1}))
    warehouse.load_all([record(day) for day in range(5)])
    assert len(warehouse.runs.newest(TEST)) == 5
    assert contents(warehouse, run_of(3).key) == {"accuracy_final": 0.97}


def test_two_connections_see_the_same_runs(opener: Callable[[], Warehouse]) -> None:
    one, other = opener(), opener()
    one.load(record(0))
    other.load(record(1))
    assert one.runs.newest(TEST) == other.runs.newest(TEST)
    assert all(isinstance(run, JobRow) for run in one.runs.newest(TEST))


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
