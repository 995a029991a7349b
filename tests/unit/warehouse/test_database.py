"""Values and names that break careless code, on every engine."""

from __future__ import annotations

import math
import random
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest

from ml_metrics.core.model import Run, Workload
from ml_metrics.core.values import MAX_TAG_BYTES, storable_name
from ml_metrics.warehouse import run_record
from unit.warehouse.records import MONDAY, contents, metric, record, workload

if TYPE_CHECKING:
    from ml_metrics.warehouse import Warehouse

HOSTILE_NAMES = [
    "it's",
    'say "so"',
    "100%",
    "%(uuid)s",
    "under_score",
    "`tick`",
    ":run",
    "@run",
    "back\\slash",
    "new\nline",
    "'; DROP TABLE job_history; --",
    "Ünïcødé ✓ 漢字",
    "x" * 1000,
    " ",
]


def test_finite_numbers_are_unchanged_and_others_are_null(warehouse: Warehouse) -> None:
    values = {
        "nan": math.nan,
        "inf": math.inf,
        "-inf": -math.inf,
        "-0.0": -0.0,
        "1e308": 1e308,
        "-1e308": -1e308,
        "5e-324": 5e-324,
        "third": 1 / 3,
        "big": 2.0**53 + 2,
    }
    run = record(0, values)
    warehouse.load(run)
    expected = {name: value if math.isfinite(value) else None for name, value in values.items()}
    assert contents(warehouse, run.key) == expected


def test_two_thousand_metrics_are_one_load(warehouse: Warehouse) -> None:
    values = {f"tag/{number:04}_final": float(number) for number in range(2000)}
    run = record(0, values, metadata={f"key {number}": "x" * 100 for number in range(100)})
    warehouse.load(run)
    assert contents(warehouse, run.key) == values


def test_names_are_not_interpreted(warehouse: Warehouse) -> None:
    run = record(
        0, dict.fromkeys(HOSTILE_NAMES, 1.0), test="it's 100% `odd`", metadata=dict.fromkeys(HOSTILE_NAMES, "%s")
    )
    warehouse.load(run)
    warehouse.load(run)
    stored = [storable_name(name) for name in HOSTILE_NAMES]
    assert contents(warehouse, run.key) == dict.fromkeys(stored, 1.0)
    for name in stored:
        (value,) = warehouse.metrics.values("it's 100% `odd`", name)
        assert value.value == 1.0
    assert [test.newest.test for test in warehouse.runs.tests()] == ["it's 100% `odd`"]


def test_the_longest_names_are_stored(warehouse: Warehouse) -> None:
    letters = random.Random(1).choices("0123456789abcdefé", k=10_000)  # not to be compressed: an index has a limit
    name = f"{storable_name(''.join(letters), MAX_TAG_BYTES)}_average"
    run = record(0, {name: 1.0}, test="t" * 250, metadata={"".join(letters): "x"})
    warehouse.load(run)
    assert contents(warehouse, run.key) == {name: 1.0}


@pytest.mark.parametrize(
    "ended",
    [
        datetime(2026, 3, 2, 12),
        datetime(2026, 3, 2, 14, tzinfo=timezone(timedelta(hours=2))),
        datetime(2026, 3, 2, 12, tzinfo=UTC),
    ],
    ids=["naive", "two hours east", "utc"],
)
def test_times_are_stored_in_utc_and_naive_times_are_utc(warehouse: Warehouse, ended: datetime) -> None:
    run = Run("test", "dag", "run", "local")
    loaded = run_record(
        run, Workload(record(0).job.job_status, started_at=ended, ended_at=ended), [], [], {}, accelerator="cpu"
    )
    warehouse.load(loaded)
    (row,) = warehouse.runs.newest("test")
    assert row.timestamp == row.ended_at == MONDAY
    assert row.timestamp.tzinfo is UTC or row.timestamp.utcoffset() == timedelta(0)


def test_microseconds_are_stored(warehouse: Warehouse) -> None:
    moment = MONDAY.replace(microsecond=123456)
    run = Run("test", "dag", "run", "local")
    loaded = run_record(run, workload(), [metric("m", 1.0, wall_time=moment.timestamp(), step=2**62)], [], {})
    warehouse.load(loaded)
    (row,) = warehouse.metrics.of_run(run.key)
    assert (row.written_at, row.step) == (moment, 2**62)
