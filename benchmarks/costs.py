"""The bills of a month of 300 tests, nightly, with 12 metrics of cost for each run among 20 others.

Three ways to the sums by owner, test and reason: `ml-metrics cost`, the page Cost (which also reads the month before),
and pandas, which reads the same rows and sums them with groupby. An SQL aggregate shows what the database alone needs.
All give the same total. CPU time, as ratios to pandas; the median of some rounds in turns.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from ml_metrics.core.kinds import cost_metric
from ml_metrics.core.model import JobStatus, Metric, Run, Workload
from ml_metrics.measure.efficiency import bill_of, bills_by, troubles_of
from ml_metrics.ui.dashboard.fleet import page_of_fleet
from ml_metrics.ui.dashboard.links import ServerLinks
from ml_metrics.ui.dashboard.page import Reader
from ml_metrics.warehouse import Warehouse, open_warehouse, run_record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TESTS, NIGHTS, OTHERS, ROUNDS = int(os.environ.get("COSTS_TESTS", "300")), 30, 20, 5
BUCKETS = ("productive", "stall", "tpu_initialization", "training_prep", "data_loading_sync", "checkpoint_save",
           "checkpoint_restore", "custom_badput_events", "other", "outside_log")  # fmt: skip
START = datetime(2026, 6, 1, tzinfo=UTC)
END = START + timedelta(days=NIGHTS)
ROWS = """
SELECT job.test_name, job.owner, cost.metric_name, cost.metric_value FROM job_history AS job
JOIN metric_history AS cost ON cost.uuid = job.uuid AND cost.metric_name LIKE 'cost%'
WHERE job.timestamp >= :since AND job.timestamp < :until
"""
SUM = f"SELECT test_name, owner, metric_name, SUM(metric_value) AS total FROM ({ROWS}) GROUP BY 1, 2, 3"
TOTAL = cost_metric("USD")


def main() -> int:
    """Print the ratios. The totals have to agree."""
    with tempfile.TemporaryDirectory() as folder, open_warehouse(f"sqlite:///{folder}/costs.db") as warehouse:
        _fill(warehouse)
        ways: dict[str, Callable[[Warehouse], float]] = {
            "pandas groupby": _pandas, "SQL aggregate": _sql, "ml-metrics cost": _bills, "page Cost": _page,
        }  # fmt: skip
        taken: dict[str, list[float]] = {name: [] for name in ways}
        totals: dict[str, float] = {}
        for _ in range(ROUNDS):
            for name, way in ways.items():
                started = time.process_time()
                totals[name] = way(warehouse)
                taken[name].append(time.process_time() - started)
    peer = statistics.median(taken["pandas groupby"])
    print(f"{TESTS} tests, {NIGHTS} nights, {len(BUCKETS) + 2 + OTHERS} metrics a run, SQLite, median of {ROUNDS}\n")
    print(f"{'way':<18} {'CPU':>9} {'ratio':>6} {'total':>14}")
    for name, each in taken.items():
        seconds = statistics.median(each)
        print(f"{name:<18} {seconds:>7.2f} s {seconds / peer:>6.2f} {totals[name]:>10.2f} USD")
    return 0 if len({round(total, 2) for total in totals.values()}) == 1 else 1


def _fill(warehouse: Warehouse) -> None:
    for night in range(NIGHTS):
        warehouse.load_all(list(_records(night)))


def _records(night: int) -> Iterator[Any]:
    end = START + timedelta(days=night, hours=3)
    for number in range(TESTS):
        cents = [10 + (number * 7 + night * 3 + place * 11) % 500 for place in range(len(BUCKETS))]
        values = {TOTAL: sum(cents) / 100, "chip_hours": 8.0}
        values |= {cost_metric("USD", name): part / 100 for name, part in zip(BUCKETS, cents, strict=True)}
        values |= {f"other_{place}": float(place) for place in range(OTHERS)}
        test = f"test-{number:03}"
        metrics = [Metric(name, value, name, "final", wall_time=end.timestamp()) for name, value in values.items()]
        workload = Workload(JobStatus.SUCCESS, started_at=end - timedelta(hours=1), ended_at=end)
        run = Run(test, test, f"night-{night}", "local")
        yield run_record(run, workload, metrics, (), {}, owner=f"team-{number % 20}")


def _bills(warehouse: Warehouse) -> float:
    runs = warehouse.costs.between(START, END)
    total = bill_of(runs)
    for key in (lambda run: run.owner, lambda run: run.test):
        bills_by(runs, key)
    troubles_of(runs)
    return total.amounts["USD"] / 100


def _page(warehouse: Warehouse) -> float:
    query = {"since": f"{START:%Y-%m-%d}", "until": f"{END - timedelta(days=1):%Y-%m-%d}"}
    page = page_of_fleet(warehouse, query, Reader(END, ServerLinks()))
    return float(page.document()["total"]["cost"]["USD"])


def _pandas(warehouse: Warehouse) -> float:
    import pandas as pd

    frame = pd.DataFrame(warehouse.database.query(ROWS, since=START, until=END))
    for column in ("owner", "test_name"):
        frame.groupby([column, "metric_name"])["metric_value"].sum()
    return float(frame.groupby("metric_name")["metric_value"].sum()[TOTAL])


def _sql(warehouse: Warehouse) -> float:
    rows = warehouse.database.query(SUM, since=START, until=END)
    return float(sum(row["total"] for row in rows if row["metric_name"] == TOTAL))


if __name__ == "__main__":
    raise SystemExit(main())
