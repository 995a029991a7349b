"""What runs cost, on each engine."""

from __future__ import annotations

from datetime import timedelta

from ml_metrics.core.model import JobStatus
from ml_metrics.measure.efficiency import RunCost, bill_of
from ml_metrics.warehouse import Warehouse
from unit.warehouse.records import MONDAY, TEST, record, run_of

COST = {"chip_hours": 8.0, "cost_usd": 9.6, "cost_productive_usd": 7.5, "cost_stall_usd": 2.1, "cost_function": 3.0}


def of_week(warehouse: Warehouse) -> list[RunCost]:
    return warehouse.costs.between(MONDAY, MONDAY + timedelta(days=7))


def test_each_run_of_the_time_span_is_there_once_with_its_cost(warehouse: Warehouse) -> None:
    warehouse.load(record(-1, COST))
    warehouse.load_all([record(day, COST) for day in range(3)])
    warehouse.load(record(3, {"loss": 1.0}, status=JobStatus.FAILURE))
    warehouse.load(record(4, {**COST, "cost_usd": 0.1 + 0.2}, trial=("image",)))
    warehouse.load(record(7, COST))
    found = of_week(warehouse)
    assert [run.run_key for run in found] == [run_of(day).key for day in range(5)]
    assert found[0] == RunCost(
        run_of(0).key, TEST, "vision-team", MONDAY, "success", TEST, trial=False, chip_hours=8.0, amounts={"USD": 960},
        parts={"productive": {"USD": 750}, "stall": {"USD": 210}},
    )  # fmt: skip
    assert [run.is_unknown for run in found] == [False, False, False, True, False]
    assert (found[4].trial, found[4].amounts) == (True, {"USD": 30})
    assert bill_of(found).amounts == {"USD": 3 * 960 + 30}
