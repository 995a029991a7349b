"""Simulated runs of one test, without Airflow and workloads: the tasks from judging on, for given metrics."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

from ml_metrics import TestDefinition
from ml_metrics.airflow import warehouse
from ml_metrics.airflow.callbacks import notify_run, post_run_message
from ml_metrics.core.model import JobStatus, Metric, Run, Sweep, Workload
from ml_metrics.core.settings import Settings
from ml_metrics.measure import Collected
from ml_metrics.pipeline import RunState, steps
from ml_metrics.store.run_folder import RunFolder

NAME = "tf-mnist-example-cpu"
START = datetime(2026, 1, 1, 3, tzinfo=UTC)
GOOD = {"accuracy_final": 0.97, "loss_final": 0.1, "throughput_final": 1000.0, "memory_final": 2.0}
TEST = TestDefinition(
    name=NAME,
    framework="tf",
    mode="example",
    owner="vision-team",
    emails=("vision@example.com", "mnist@example.com"),
    image="gcr.io/my-project/mnist:nightly",
    command=("python3", "train.py"),
    regression_test_config={
        "required_metrics": ["throughput_final"],
        "metric_success_conditions": {
            "accuracy_final": {"comparison": "greater", "success_threshold": {"fixed_value": 0.96}},
            "loss_final": {
                "comparison": "less",
                "success_threshold": {"stddevs_from_mean": 5},
                "wait_for_n_points_of_history": 3,
            },
            "memory_final": {
                "comparison": "less",
                "success_threshold": {"fixed_value": 4.0},
                "severity": "warn",
            },
        },
    },
)


@dataclass(frozen=True)
class SimulatedRun:
    """One run: its metrics, how its workload ended, and the states of its tasks."""

    description: str
    metrics: dict[str, float] = field(default_factory=lambda: dict(GOOD))
    status: JobStatus = JobStatus.SUCCESS
    failure: str | None = None
    image: str = "gcr.io/my-project/mnist@sha256:aaaa"
    states: dict[str, str] = field(default_factory=dict)
    gate_is_killed: bool = False
    test: TestDefinition = TEST
    start: dict[str, Any] = field(default_factory=dict)
    """What `run.json` holds beside the identity: parameters, and whether the run is a trial."""
    node: str | None = None
    sweeps: tuple[Sweep, ...] = ()


def good(description: str = "good", **metrics: float) -> SimulatedRun:
    return SimulatedRun(description, {**GOOD, **metrics})


BAD = good("bad", accuracy_final=0.5)


def failed(status: JobStatus, reason: str) -> SimulatedRun:
    return SimulatedRun(f"{status} {reason}", {}, status, reason)


def without(metric: str, description: str) -> SimulatedRun:
    return SimulatedRun(description, {name: value for name, value in GOOD.items() if name != metric})


def run_of(number: int) -> Run:
    return Run(NAME, NAME, f"scheduled__{START + timedelta(days=number):%Y-%m-%dT%H:%M:%S+00:00}", "local")


def simulate(number: int, simulated: SimulatedRun) -> RunFolder:
    """Do the work of a run's tasks, up to the gate."""
    run = run_of(number)
    folder = RunFolder.of(run, Settings.load().storage_root)
    ended = START + timedelta(days=number, minutes=5)
    test_file = simulated.test.model_dump(mode="json", exclude_unset=True)
    folder.write("run", {**vars_of(run), "test_file": test_file, **simulated.start})
    folder.write_workload(
        Workload(
            simulated.status,
            simulated.failure,
            started_at=ended - timedelta(minutes=4, seconds=number),
            ended_at=ended,
            image="gcr.io/my-project/mnist:nightly",
            image_digest=simulated.image,
            pod=f"mnist-{number}",
            node=simulated.node,
            logs_link=f"http://localhost:8080/dags/{NAME}/runs/{number}/tasks/run_workload",
            logs_command=f"gcloud logging read 'resource.labels.pod_name=\"mnist-{number}\"' --project my-project",
            workload_link=f"https://console.cloud.google.com/kubernetes/pod/mnist-{number}",
        )
    )
    # values vary a little from run to run, as real ones do
    varied = {name: value * (1 + 0.002 * (number % 5 - 2)) for name, value in simulated.metrics.items()}
    metrics = tuple(Metric(name, value, name, "final", wall_time=ended.timestamp()) for name, value in varied.items())
    folder.write("metrics", Collected(metrics, sweeps=simulated.sweeps).document())
    with warehouse() as open_warehouse:
        steps.judge(simulated.test, run, RunState(folder), open_warehouse)
        if simulated.states.get("load_history") != "failed":
            steps.load(simulated.test, run, RunState(folder), open_warehouse)
    if not simulated.gate_is_killed:
        steps.decide(RunState(folder), {task: simulated.states.get(task, "success") for task in steps.TASKS[:-1]})
    return folder


def notify_about(number: int, simulated: SimulatedRun) -> None:
    """Do what the gate does after its decision, and then its callback."""
    run = run_of(number)
    gate = SimpleNamespace(test=simulated.test, decided=False, posted=None)
    if not simulated.gate_is_killed:
        state = RunState(RunFolder.of(run, Settings.load().storage_root))
        gate.posted, gate.decided = post_run_message(simulated.test, run, state), True
    notify_run({"task": gate, "dag_run": SimpleNamespace(dag_id=run.dag_id, run_id=run.run_id)})


def run_and_notify(number: int, simulated: SimulatedRun) -> RunFolder:
    folder = simulate(number, simulated)
    notify_about(number, simulated)
    return folder


def vars_of(run: Run) -> dict[str, Any]:
    return {name: getattr(run, name) for name in Run.__dataclass_fields__}


def with_test(run: SimulatedRun, **changes: Any) -> SimulatedRun:
    return replace(run, test=TestDefinition.model_validate({**run.test.model_dump(exclude_unset=True), **changes}))
