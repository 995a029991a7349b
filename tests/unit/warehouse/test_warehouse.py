"""Loading runs, on every engine."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from ml_metrics.errors import WarehouseError
from ml_metrics.model import JobStatus, Outcome
from ml_metrics.warehouse import JobRow, Warehouse
from unit.warehouse.records import TEST, contents, record, run_of

if TYPE_CHECKING:
    from collections.abc import Callable


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
    nameless = replace(bad.metrics[0], metric=None)
    broken = replace(bad, metrics=(*bad.metrics, nameless))
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
