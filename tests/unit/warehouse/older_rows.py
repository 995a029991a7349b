"""The rows of an older system, in tables with fewer columns."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import sqlalchemy as sa

from ml_metrics.judge import HistoryNeeds
from unit.warehouse.records import MONDAY, TEST, contents, record, run_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ml_metrics.warehouse import Warehouse

OLDER_JOB = ("older", TEST, "func", "v2-8", "tf", "success", 0, 60, MONDAY.isoformat(), "link", 7, None, None)
OLDER_METRIC = ("older", TEST, MONDAY.isoformat(), "accuracy_final", 0.9, None, None)


def check_older_and_newer(warehouse: Warehouse) -> None:
    """Check that the older run is kept and is history, and that a run of ours, with a NaN, is stored beside it."""
    warehouse.load(record(1, {"accuracy_final": float("nan")}))
    assert [run.uuid for run in warehouse.runs.newest(TEST)] == [run_of(1).key, "older"]
    assert contents(warehouse, run_of(1).key) == {"accuracy_final": None}
    needs = HistoryNeeds(tests=(TEST,), window=10, recent=1, earliest=None)
    (point,) = warehouse.metrics.history(needs, exclude=run_of(1).key)
    assert (point.value, point.outcome, point.timestamp) == (0.9, None, MONDAY)
    newer = record(2)
    warehouse.load(replace(newer, metrics=(replace(newer.metrics[0], reference=0.9, spread=0.1),)))
    rows = [*warehouse.metrics.of_run("older"), *warehouse.metrics.of_run(newer.key)]
    assert [(row.reference, row.spread) for row in rows] == [(None, None), (0.9, 0.1)]


@contextmanager
def connected(address: str) -> Iterator[sa.Connection]:
    engine = sa.create_engine(address)
    with engine.begin() as connection:
        yield connection
    engine.dispose()
