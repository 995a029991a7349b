"""One wave: many runs of one variant, started at once, with their cost, their times, and what was lost or doubled."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import create_engine, inspect, text

from campaigns.fleet.cpu import seconds_by_family
from campaigns.fleet.deployment import PODS
from campaigns.fleet.variants import Variant, write_tests
from ml_metrics.core.model import Run

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from campaigns.fleet.deployment import Deployment

RUN_ID = "fleet__1"
PAUSE = 1.0
"""Seconds between two looks at Airflow's database."""
IDLE_SECONDS = 15.0
MESSAGE_SECONDS = 30.0
"""How long a message may arrive after its run has ended."""
JOBS, METRICS = "job_history", "metric_history"
JOB_ROWS = f"SELECT test_name, count(*) FROM {JOBS} GROUP BY test_name"
METRIC_ROWS = f"SELECT test_name, count(*) FROM {METRICS} WHERE metric_name = 'loss_final' GROUP BY test_name"
"""One metric stands for all of a run, which are written together."""
RUNS = "SELECT dag_id, state, start_date, end_date FROM dag_run WHERE run_id = :run"
TASKS = "SELECT dag_id, task_id, state, try_number, end_date FROM task_instance WHERE run_id = :run"
KNOWN = "SELECT dag_id FROM dag WHERE NOT is_stale"


@dataclass(frozen=True)
class Wave:
    """What was measured."""

    executor: str
    variant: Variant
    runs: int
    ended: int
    """How many runs ended within the time."""
    wall: float
    """From the first start to the last end, in seconds."""
    cpu: dict[str, float]
    """CPU seconds of all runs together, by process."""
    tries_above_one: int
    verdict: tuple[float, ...] = ()
    """Seconds from the end of each workload to the end of `judge_run`."""
    told: tuple[float, ...] = ()
    """Seconds from the end of each workload to the message, or to the end of the gate where there is none."""
    idle: float = 0.0
    """The cores that this Airflow uses when nothing runs."""
    wrong: dict[str, int] = field(default_factory=dict)
    """What was lost and doubled, by kind."""

    @property
    def cpu_of_run(self) -> float:
        """CPU seconds a run, of Airflow with its tasks and of the databases; pods are not Airflow's."""
        return without_pods(self.cpu) / self.runs


def play(deployment: Deployment, executor: str, variant: Variant, names: Sequence[str], seconds: float) -> Wave:
    """Play a wave, within so many seconds."""
    engine = create_engine(deployment.database)

    def rows(statement: str, **values: Any) -> list[Any]:
        with engine.connect() as connection:
            return [row for row in connection.execute(text(statement), values) if row[0] in wanted]

    wanted = set(names)
    deadline = time.monotonic() + seconds
    write_tests(variant, names, deployment.home, deployment.dags, deployment.kubeconfig)
    _until(lambda: len(rows(KNOWN)) == len(names), deadline)
    time.sleep(2 * PAUSE)
    before, began = seconds_by_family(deployment.names, PODS), time.monotonic()
    for name in names:
        deployment.airflow.trigger(name, run=RUN_ID)
    _until(lambda: all(row.state in {"success", "failed"} for row in rows(RUNS, run=RUN_ID)), deadline)
    wall = time.monotonic() - began
    keys = {Run(name, name, RUN_ID, "local").key: name for name in names} if variant is Variant.RED else {}
    late = time.monotonic() + MESSAGE_SECONDS
    _until(lambda: keys.keys() <= _messages(deployment).keys(), late)
    time.sleep(2 * PAUSE)
    after = seconds_by_family(deployment.names, PODS)
    runs, tasks = rows(RUNS, run=RUN_ID), rows(TASKS, run=RUN_ID)
    engine.dispose()
    ends = _ends_of_workloads(deployment, names)
    gates = {row.dag_id: _seconds(row.end_date) for row in tasks if row.task_id == "assert_success" and row.end_date}
    verdicts = {row.dag_id: _seconds(row.end_date) for row in tasks if row.task_id == "judge_run" and row.end_date}
    told = {keys[key]: at[0] for key, at in _messages(deployment).items() if key in keys} if keys else gates
    return Wave(
        executor,
        variant,
        len(names),
        sum(row.state in {"success", "failed"} for row in runs),
        wall,
        {name: after[name] - before.get(name, 0.0) for name in after},
        sum((row.try_number or 0) > 1 for row in tasks),
        tuple(sorted(verdicts[name] - ends[name] for name in verdicts.keys() & ends.keys())),
        tuple(sorted(told[name] - ends[name] for name in told.keys() & ends.keys())),
        wrong=_wrong(deployment, variant, names, keys, runs),
    )


def idle_cores(deployment: Deployment) -> float:
    """Return the cores that a new Airflow uses before anything runs in it."""
    time.sleep(IDLE_SECONDS)  # until it has settled
    before = seconds_by_family(deployment.names, PODS)
    time.sleep(IDLE_SECONDS)
    return without_pods(seconds_by_family(deployment.names, PODS)) / IDLE_SECONDS - without_pods(before) / IDLE_SECONDS


def without_pods(cpu: Mapping[str, float]) -> float:
    """Return the seconds of Airflow with its tasks and of the databases."""
    return sum(seconds for name, seconds in cpu.items() if name != PODS and not name.endswith(" itself"))


def _wrong(
    deployment: Deployment, variant: Variant, names: Sequence[str], keys: dict[str, str], runs: Sequence[Any]
) -> dict[str, int]:
    """Count the runs with another end than theirs, and rows and messages that are lost or doubled."""
    right = "failed" if variant is Variant.RED else "success"
    found = {"other ends": sum(row.state != right for row in runs) + len(names) - len(runs)}
    if not variant.is_ours:
        return found
    jobs, metrics = _count(deployment, JOB_ROWS), _count(deployment, METRIC_ROWS)
    messages = Counter({keys[key]: len(at) for key, at in _messages(deployment).items() if key in keys})
    wanted = 1 if variant is Variant.RED else 0
    for kind, counted, expected in (
        ("job rows", jobs, 1),
        ("metric rows", metrics, 1),
        ("messages", messages, wanted),
    ):
        found[f"lost {kind}"] = sum(max(0, expected - counted[name]) for name in names)
        found[f"doubled {kind}"] = sum(max(0, counted[name] - expected) for name in names)
    return found


def _count(deployment: Deployment, statement: str) -> Counter[str]:
    """Return the rows of each test."""
    engine = create_engine(deployment.warehouse)
    if not inspect(engine).has_table(METRICS):
        return Counter()  # the first row makes the tables
    with engine.connect() as connection:
        counted = Counter({row[0]: int(row[1]) for row in connection.execute(text(statement))})
    engine.dispose()
    return counted


def _messages(deployment: Deployment) -> dict[str, list[float]]:
    """Return the times of the messages about each run, by its key."""
    found: dict[str, list[float]] = {}
    for one in list(deployment.ledger.taken):
        found.setdefault(one.key[:36], []).append(one.at)
    return found


def _ends_of_workloads(deployment: Deployment, names: Sequence[str]) -> dict[str, float]:
    """Return the times that the workloads left; a workload that is started again leaves a later one."""
    paths = {name: deployment.home.shared / f"{name}.ended" for name in names}
    return {name: float(path.read_text()) for name, path in paths.items() if path.exists() and path.stat().st_size}


def _seconds(value: Any) -> float:
    """Return a time of Airflow's database, which SQLite has as text without a zone."""
    at = datetime.fromisoformat(value) if isinstance(value, str) else value
    return float((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp())


def _until(condition: Any, deadline: float) -> None:
    while not condition() and time.monotonic() < deadline:
        time.sleep(PAUSE)
