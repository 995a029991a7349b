"""The small curves of many tests: which metric is chosen, and which of its values are read."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from ml_metrics.core.model import JobStatus, Outcome
from unit.warehouse.records import MONDAY, record, run_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from ml_metrics.warehouse import Warehouse
    from ml_metrics.warehouse.curves import SmallCurve

MONTH = MONDAY - timedelta(days=20)


def curves(warehouse: Warehouse, *tests: str, most: int = 60) -> dict[str, SmallCurve]:
    newest = warehouse.runs.newest_of(list(tests), MONTH)
    return warehouse.curves.small({run.run_key: (run.test, run.at) for run in newest}, MONTH, most)


def test_the_metric_that_failed_or_the_first_with_a_condition_is_chosen(opener: Callable[..., Warehouse]) -> None:
    warehouse = opener()
    values = {"goodput": 90.0, "badput_idle_percent": 10.0, "a_final": 1.0, "b_final": 2.0, "c_final": 3.0}
    judged = dict.fromkeys(["goodput", "badput_idle_percent", "b_final", "c_final"], Outcome.PASS)
    warehouse.load_all([record(day, values, test="good", outcomes=judged) for day in range(3)])
    broken = {**judged, "c_final": Outcome.FAIL}
    warehouse.load_all([record(day, values, test="bad", outcomes=broken if day == 2 else judged) for day in range(3)])
    warehouse.load(record(0, {"a_final": 1.0}, test="unjudged"))
    warehouse.load(record(0, {}, test="missed", status=JobStatus.MISSED))
    warehouse.load(record(-90, {"a_final": 1.0}, test="old", outcomes={"a_final": Outcome.PASS}))
    found = curves(warehouse, "good", "bad", "unjudged", "missed", "old", "none")
    assert {test: (one.metric, one.values, one.broken) for test, one in found.items()} == {
        "good": ("b_final", (2.0, 2.0, 2.0), ()),
        "bad": ("c_final", (3.0, 3.0, 3.0), (2,)),
    }


def test_the_newest_values_are_read_without_trials(opener: Callable[..., Warehouse]) -> None:
    warehouse = opener()
    judged = {"a_final": Outcome.PASS}
    warehouse.load_all([record(day, {"a_final": float(day)}, outcomes=judged) for day in (-90, 0, 1, 2, 3)])
    warehouse.load(record(4, {"a_final": 99.0}, outcomes=judged, trial=("image",)))
    warehouse.load(record(1, {"a_final": 50.0}, test="other", outcomes=judged))
    test = run_of().test
    (newest,) = warehouse.runs.newest_of([test], MONTH)
    assert (newest.run_key, newest.dag_id, newest.at) == (run_of(3).key, test, MONDAY + timedelta(days=3))
    assert curves(warehouse, test)[test].values == (0.0, 1.0, 2.0, 3.0)
    assert curves(warehouse, test, most=2)[test].values == (2.0, 3.0)
    assert curves(warehouse) == {}


def test_a_curve_has_the_unit_of_its_newest_value_and_the_places_of_all_that_broke(
    opener: Callable[..., Warehouse],
) -> None:
    warehouse = opener()
    outcomes = (Outcome.FAIL, Outcome.PASS, Outcome.NON_FINITE, Outcome.FAIL)
    runs = [record(day, {"a_final": float(day)}, outcomes={"a_final": each}) for day, each in enumerate(outcomes)]
    units = ("ms", "ms", "ms", "s")
    warehouse.load_all(
        [
            replace(run, metrics=tuple(replace(one, unit=unit) for one in run.metrics))
            for run, unit in zip(runs, units, strict=True)
        ]
    )
    older = record(0, {"step_time_p50": 1.0}, test="older", outcomes={"step_time_p50": Outcome.PASS})
    warehouse.load(replace(older, job=replace(older.job, dag_id=None)))
    warehouse.database.change("UPDATE metric_history SET unit = NULL WHERE test_name = :test", test="older")
    found = curves(warehouse, run_of().test, "older")
    assert found[run_of().test] == ("a_final", "s", (0.0, 1.0, 2.0, 3.0), (0, 2, 3))
    assert found["older"] == ("step_time_p50", "s", (1.0,), ())
    assert [(run.test, run.dag_id) for run in warehouse.runs.newest_of(["older"], MONTH)] == [("older", "older")]
    assert warehouse.runs.newest_of([], MONTH) == []
    assert warehouse.runs.newest_of(["older"], MONDAY + timedelta(seconds=1)) == []
