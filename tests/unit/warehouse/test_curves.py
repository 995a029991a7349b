"""The curves of runs, on every engine."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from ml_metrics.core.errors import WarehouseError
from ml_metrics.core.model import CurveBand, Metric, Outcome, Sweep, SweepPoint, TagCurve, Verdict
from ml_metrics.warehouse import Warehouse, open_warehouse, run_record
from unit.warehouse.records import MONDAY, TEST, record, run_of, workload

if TYPE_CHECKING:
    from pathlib import Path

    from ml_metrics.warehouse import RunRecord

CURVE = TagCurve("train/loss", (0, 10, 2**53), (9.5, 1e-308, -1e308), ((3, 5, 2),), "lower")
OTHER = TagCurve("lärm\U0001f4c9", (1,), (0.1,))


def with_curves(day: int, *curves: TagCurve) -> RunRecord:
    return run_record(
        run_of(day),
        workload(day),
        [Metric("train/loss_curve", 0.0, "train/loss", "curve")],
        [],
        {},
        test_type="example",
        accelerator="cpu",
        framework_version="tf",
        curves={curve.tag: curve for curve in curves},
    )


def curves_of(warehouse: Warehouse, keys: list[str], tags: list[str]) -> dict[tuple[str, str], TagCurve]:
    ends = {run_of(day).key: MONDAY + timedelta(days=day) for day in range(3)}
    return warehouse.curves.of_runs(keys, tags, tests=[TEST], ends=ends)


def test_curves_are_read_back_as_they_were_loaded(warehouse: Warehouse) -> None:
    runs = [with_curves(day, CURVE, OTHER) for day in range(3)]
    warehouse.load_all(runs)
    keys = [run.key for run in runs]
    assert curves_of(warehouse, keys[:2], [CURVE.tag]) == {(key, CURVE.tag): CURVE for key in keys[:2]}
    assert curves_of(warehouse, keys, [OTHER.tag, "unknown"]) == {(key, OTHER.tag): OTHER for key in keys}


def test_a_run_has_its_curves_with_the_envelopes_that_they_were_judged_by(warehouse: Warehouse) -> None:
    band = CurveBand((0, 10), (8.5, -1e308), (10.5, 1e308))
    verdict = Verdict("train/loss_curve", Outcome.FAIL, 4.0, None, "", band=band)
    run = run_record(run_of(0), workload(0), [], [verdict], {}, curves={curve.tag: curve for curve in (CURVE, OTHER)})
    warehouse.load(run)
    assert warehouse.curves.of_run(run.job.place) == [(OTHER, None), (CURVE, band)]
    assert warehouse.curves.of_run(record(1).job.place) == []


SWEEP = Sweep(
    "chat/ttft",
    "request_rate",
    (SweepPoint(1.0, 0.5, 30, 0.1), SweepPoint(1.0, 0.7), SweepPoint(1e9, None, 0, None, "failed")),
    "1/s",
    "s",
    "lower",
)


def test_curves_over_a_load_are_rows_that_are_read_back_as_they_were(warehouse: Warehouse) -> None:
    about = {"test_type": None, "accelerator": None, "framework_version": None}
    other = replace(SWEEP, name="lärm\U0001f4c9")
    runs = [
        run_record(run_of(day), workload(day), [], [], {}, sweeps=(SWEEP, other), curves={CURVE.tag: CURVE}, **about)
        for day in range(2)
    ]
    warehouse.load_all(runs)
    warehouse.load(runs[0])
    keys = [run.key for run in runs]
    ends = {run.key: run.job.timestamp for run in runs}
    found = warehouse.curves.judged_of_runs(keys, [f"curve/{SWEEP.name}", CURVE.tag], tests=[TEST], ends=ends)
    assert found == {
        (key, tag): one for key in keys for tag, one in ((f"curve/{SWEEP.name}", SWEEP), (CURVE.tag, CURVE))
    }
    assert warehouse.curves.sweeps_of(runs[0].job.place) == [SWEEP, other]
    columns = ["uuid", "curve", "place", "x", "y", "mark"]
    rows = {tuple(row) for row in warehouse.database.store.scan("curve_points", columns) if row[0] == keys[0]}
    assert (keys[0], "chat/ttft", 2, 1e9, None, "failed") in rows
    assert len(rows) == 6


def test_nothing_is_read_for_no_run_or_no_tag(warehouse: Warehouse) -> None:
    warehouse.load(with_curves(0, CURVE))
    assert curves_of(warehouse, [], [CURVE.tag]) == {}
    assert curves_of(warehouse, [run_of(0).key], []) == {}


def test_a_later_attempt_replaces_the_curves_of_the_earlier_one(warehouse: Warehouse) -> None:
    later = replace(CURVE, values=(1.0, 2.0, 3.0))
    for attempt in (with_curves(0, CURVE, OTHER), with_curves(0, later), with_curves(0, later)):
        warehouse.load(attempt)
    key = run_of(0).key
    assert curves_of(warehouse, [key], [CURVE.tag, OTHER.tag]) == {(key, CURVE.tag): later}


def test_a_damaged_curve_is_an_error_with_its_run(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path}/warehouse.db"
    with open_warehouse(address) as warehouse:
        warehouse.load(with_curves(0, CURVE))
        for text in ("", "[]", '{"steps": [1], "values": []}', '{"steps": ["x"], "values": [1]}'):
            with sqlite3.connect(tmp_path / "warehouse.db") as other:
                other.execute("UPDATE curve_history SET curve = ?", [text])
            with pytest.raises(WarehouseError, match=f"run {run_of(0).key}: curve_history: the curve of 'train/loss'"):
                curves_of(warehouse, [run_of(0).key], [CURVE.tag])
