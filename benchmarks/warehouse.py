"""The time to judge and load a run, with 200 earlier runs and with 50,000.

Both warehouses are SQLite files with 40 metrics per run, all of the same test, which is the worst case. The rounds
alternate between them. CPU time is compared, because wall time depends on other load of the machine.
"""

from __future__ import annotations

import sqlite3
import statistics
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from ml_metrics.config.conditions import RegressionTestConfig
from ml_metrics.core.model import JobStatus, Metric, Run, Workload
from ml_metrics.judge import history_needs, judge_run
from ml_metrics.warehouse import Warehouse, open_warehouse, run_record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TEST = "tf-mnist-example-cpu"
FEW, MANY, METRICS = 200, 50_000, 40
WINDOW = 100
ROUNDS = 25
TARGET = 1.5
START = datetime(2020, 1, 1, tzinfo=UTC)
CONFIG = RegressionTestConfig.model_validate(
    {
        "metric_success_conditions": {
            "default": {"comparison": "within", "success_threshold": {"stddevs_from_mean": 5.0}, "window": WINDOW}
        }
    }
)


def main() -> None:
    """Print the ratios."""
    with tempfile.TemporaryDirectory() as folder:
        few, many = _filled(Path(folder, "few.db"), FEW), _filled(Path(folder, "many.db"), MANY)
        print(f"{METRICS} metrics per run, SQLite, median of {ROUNDS} rounds, CPU time\n")
        print(f"{'measurement':<34} {f'{FEW} runs':>12} {f'{MANY} runs':>12} {'ratio':>6} {'target':>7}  met")
        for what, act in {"read history and judge a run": _judge, "load a run": _load, "both": _both}.items():
            _compare(what, act, few, many)
        few.close()
        many.close()


def _compare(what: str, act: Callable[[Warehouse, int], None], few: Warehouse, many: Warehouse) -> None:
    ours, theirs = [], []
    for number in range(ROUNDS):
        theirs.append(_seconds(act, few, FEW + number))
        ours.append(_seconds(act, many, MANY + number))
    before, after = statistics.median(theirs), statistics.median(ours)
    ratio = after / before
    met = "yes" if ratio < TARGET else "NO"
    print(f"{what:<34} {before * 1e3:>9.1f} ms {after * 1e3:>9.1f} ms {ratio:>6.2f} {f'< {TARGET}':>7}  {met}")


def _seconds(act: Callable[[Warehouse, int], None], warehouse: Warehouse, number: int) -> float:
    start = time.process_time()
    act(warehouse, number)
    return time.process_time() - start


def _both(warehouse: Warehouse, number: int) -> None:
    _judge(warehouse, number)
    _load(warehouse, number)


def _judge(warehouse: Warehouse, number: int) -> None:
    run = _run(number)
    history = warehouse.metrics.history(history_needs(CONFIG, TEST), exclude=run.key, before=_moment(number))
    judgement = judge_run(
        CONFIG, _metrics(number), history, status=JobStatus.SUCCESS, run_key=run.key, test=TEST, now=_moment(number)
    )
    if not all(verdict.baseline_points == WINDOW for verdict in judgement.verdicts):
        raise RuntimeError("the judge did not get its whole window, so the measurement is invalid")


def _load(warehouse: Warehouse, number: int) -> None:
    ended = _moment(number)
    workload = Workload(JobStatus.SUCCESS, started_at=ended - timedelta(minutes=5), ended_at=ended)
    warehouse.load(
        run_record(_run(number), workload, _metrics(number), [], {}, accelerator="cpu", framework_version="tf")
    )


def _filled(path: Path, runs: int) -> Warehouse:
    """Create a warehouse with earlier runs, written in bulk: loading them one by one would take half an hour."""
    warehouse = open_warehouse(f"sqlite:///{path}")
    warehouse.ensure_schema()
    connection = sqlite3.connect(path)
    with connection:
        connection.executemany(
            "INSERT INTO job_history (uuid, test_name, test_type, accelerator, framework_version, job_status,"
            " num_failures, job_duration_sec, timestamp, stackdriver_logs_link, verdict)"
            " VALUES (?, ?, '', 'cpu', 'tf', 'success', 0, 300, ?, '', 'pass')",
            ((_run(number).key, TEST, _stored(number)) for number in range(runs)),
        )
        connection.executemany(
            "INSERT INTO metric_history (uuid, test_name, timestamp, metric_name, metric_value, verdict)"
            " VALUES (?, ?, ?, ?, ?, 'pass')",
            _metric_rows(runs),
        )
    connection.close()
    return warehouse


def _metric_rows(runs: int) -> Iterator[tuple[str, str, str, str, float]]:
    for number in range(runs):
        key, moment = _run(number).key, _stored(number)
        for metric in _metrics(number):
            yield key, TEST, moment, metric.name, metric.value


def _run(number: int) -> Run:
    return Run(TEST, TEST, f"scheduled__{number}", "local")


def _metrics(number: int) -> list[Metric]:
    return [
        Metric(f"tag_{which}_final", 1.0 + (number * 7919 + which) % 1000 / 1e4, f"tag_{which}", "final")
        for which in range(METRICS)
    ]


def _moment(number: int) -> datetime:
    return START + timedelta(hours=number)


def _stored(number: int) -> str:
    return _moment(number).replace(tzinfo=None).isoformat(sep=" ", timespec="microseconds")


if __name__ == "__main__":
    main()
