"""One deployment of the campaign: its runs, its servers, and the processes that Airflow would start for it."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from queue import Empty
from typing import Any

import psutil

from campaigns.messages.execution_api import end_of_run, reported_state
from campaigns.messages.mail_servers import Ledger, MailServer, SendGridServer, smtp_connection
from campaigns.messages.processes import Host, Started
from campaigns.messages.warehouses import WarehouseServer
from ml_metrics import TestDefinition
from ml_metrics.core.errors import StorageError
from ml_metrics.core.model import JobStatus, Metric, Run, Workload
from ml_metrics.measure import Collected
from ml_metrics.pipeline import RunState, steps
from ml_metrics.store.markers import Markers
from ml_metrics.store.run_folder import RunFolder
from ml_metrics.warehouse import open_warehouse

RUN_ID = "manual__1"
GATE = "assert_success"
RETRIES = 2
TRY_SECONDS = 300
CALLBACK_SECONDS = 50
"""Airflow's DAG processor kills the process of a callback after this time."""
CONDITIONS = {
    metric: {"comparison": "less", "success_threshold": {"fixed_value": 1.0}} for metric in ("loss", "step_time")
}
RED, OTHER_RED, GREEN = (
    {"loss": 2.0, "step_time": 0.5},
    {"loss": 0.5, "step_time": 2.0},
    {"loss": 0.5, "step_time": 0.5},
)


@dataclass(frozen=True)
class Pace:
    """The times of a campaign, which are shorter than a deployment's. Airflow's own times are its defaults."""

    period: float
    """From one start of a sender to the next; five minutes in a deployment."""
    fault: float
    """How long the fault lasts."""
    retry_delay: float = 0.5
    heartbeat_timeout: float = 2.0
    """After this time Airflow takes a worker that was killed for lost."""


@dataclass(frozen=True)
class Kill:
    """kill -9, so many seconds after a process was started, or just before its nth side effect."""

    target: str
    """`task`, `worker` (its supervisor), or `both`; `stopped` is the task, for longer than the lease of a message."""
    after: float = 0.0
    at_effect: int = 0


@dataclass(frozen=True)
class Task:
    """One try of a task."""

    dag: str
    task: str
    try_number: int
    retries: int
    states: Path
    """Gets the states that the supervisor reports."""
    dag_file: str = "ml_tests.py"


@dataclass(frozen=True)
class TestRun:
    """One run of a test of its own."""

    __test__ = False
    test: TestDefinition
    run: Run
    folder: RunFolder
    """As the campaign sees it."""
    configs: Path


@dataclass
class Deployment:
    """An Airflow with the tests of one fault."""

    name: str
    folder: Path
    host: Host
    warehouse: WarehouseServer
    mail: MailServer | SendGridServer
    ledger: Ledger
    pace: Pace
    constants: dict[str, Any]
    """Constants of the package that have other values in the processes of the campaign."""
    runs: dict[str, TestRun] = field(default_factory=dict)
    """The runs by their keys."""
    clock_seconds: float = 0.0
    """How far the clocks of the processes are ahead of ours."""

    @property
    def kills(self) -> list[float]:
        """The times at which a process was killed."""
        path = self.folder / "kills"
        return [float(line.split()[0]) for line in path.read_text().splitlines()] if path.exists() else []

    @property
    def storage(self) -> Path:
        return self.folder / "runs"

    def environment(self, configs: Path | None = None) -> dict[str, str]:
        """Return what the processes of this deployment find in their environment."""
        smtp = smtp_connection(self.mail.port)
        sendgrid = {"conn_type": "http", "host": f"http://127.0.0.1:{self.mail.port}", "password": "key"}
        return {
            "AIRFLOW_HOME": str(self.folder),
            "AIRFLOW__ML_METRICS__STORAGE_ROOT": str(self.storage),
            "AIRFLOW__ML_METRICS__CONFIG_ROOT": str(configs or self.folder / "no-configs"),
            "AIRFLOW__ML_METRICS__CHANNELS": "smtp" if isinstance(self.mail, MailServer) else "sendgrid",
            "AIRFLOW__ML_METRICS__MAILS_PER_HOUR": "100000",
            # all runs fail within minutes, and each message is counted
            "AIRFLOW__ML_METRICS__MASS_FAILURE_TESTS": "0",
            "AIRFLOW__ML_METRICS__MASS_FAILURE_PERCENT": "0",
            "AIRFLOW__ML_METRICS__DEPLOYMENT": self.name,
            "AIRFLOW_CONN_SMTP_DEFAULT": json.dumps(smtp),
            "AIRFLOW_CONN_SENDGRID_DEFAULT": json.dumps({**sendgrid, "extra": smtp["extra"]}),
            **self.warehouse.environment(),
        }

    def add_run(self, metrics: dict[str, float]) -> TestRun:
        """Define a test, and write what the tasks before the gate leave in the folder of its run."""
        name = f"{self.name[:40]}-{len(self.runs)}"
        configs = self.folder / "configs" / name
        configs.mkdir(parents=True)
        content = {
            "name": name,
            "image": "i",
            "command": ["c"],
            "owner": f"owner-of-{name}",
            "emails": ["a@example.com"],
            "goodput": {"enabled": False},
        }
        content["regression_test_config"] = {"metric_success_conditions": CONDITIONS}
        (configs / f"{name}.yaml").write_text(json.dumps(content))
        run = Run(name, name, RUN_ID, self.name)
        folder = RunFolder.of(run, str(self.host.seen(self.storage)))
        one = TestRun(TestDefinition.model_validate(content), run, folder, configs)
        folder.write(
            "run", {"test": name, "dag_id": name, "run_id": RUN_ID, "deployment": self.name, "test_file": content}
        )
        self.measure(one, metrics)
        self.runs[run.key] = one
        return one

    def measure(self, one: TestRun, metrics: dict[str, float]) -> None:
        """Write the documents of a run that measured these metrics; again for a run that was cleared."""
        now = datetime.now(UTC)
        one.folder.write_workload(Workload(JobStatus.SUCCESS, started_at=now - timedelta(minutes=1), ended_at=now))
        measured = tuple(
            Metric(name, value, name, "final", wall_time=now.timestamp()) for name, value in metrics.items()
        )
        one.folder.write("metrics", Collected(measured).document())
        steps.measure_efficiency(one.test, RunState(one.folder))  # as `judge_run` does
        with open_warehouse(f"sqlite:///{self.folder}/judge.db") as elsewhere:
            steps.judge(one.test, one.run, RunState(one.folder), elsewhere)
        markers = Markers.of(str(self.host.seen(self.storage)), self.name)
        with suppress(StorageError):
            markers.add_run(one.run.key, RunFolder.of(one.run, str(self.storage)).path, gate_is_next=True)

    def play(self, one: TestRun, kill: Callable[[int], Kill | None] = lambda _: None) -> str:
        """Play the gate of a run as Airflow does: its tries, and the callback of a lost one. Returns the state."""
        states = self.folder / f"{one.run.test}.states"
        states.unlink(missing_ok=True)
        end_of_run(states).unlink(missing_ok=True)
        state = ""
        for number in range(1, RETRIES + 2):
            task = Task(one.run.dag_id, GATE, number, RETRIES, states)
            started = self.start_task(task, one.configs, kill(number))
            code = end_of(started, TRY_SECONDS)
            state = reported_state(states, number)
            if state in {"success", "failed"}:
                break
            # a try that was reported is tried again soon; a lost one when its heartbeats are missed
            time.sleep(self.pace.retry_delay if state == "up_for_retry" or code == 0 else self.pace.heartbeat_timeout)
        end_of_run(states).write_text(f"{'success' if state == 'success' else 'failed'}\n")
        if state in {"success", "failed"}:
            return state  # nobody calls back a task that was killed in its last try, if its supervisor has reported it
        arguments = {"dag": one.run.dag_id, "run": RUN_ID, "task": GATE, "dag_file": "ml_tests.py"}
        end_of(self._fork("lost_task", one.run.test, one.configs, kill(0), **arguments), CALLBACK_SECONDS)
        return "failed"

    def start_task(self, task: Task, configs: Path | None = None, kill: Kill | None = None) -> Started:
        """Start one try of a task under Airflow's supervisor."""
        arguments = {"run": RUN_ID, **{name: getattr(task, name) for name in ("dag", "task", "try_number", "retries")}}
        return self._fork("task", task.dag, configs, kill, **arguments, states=str(task.states), dag_file=task.dag_file)

    def start_function(self, function: str, kill: Kill | None = None) -> Started:
        """Start a process that calls one function."""
        return self._fork("function", function.rpartition(".")[2], None, kill, function=function)

    def keys_of(self, one: TestRun) -> dict[str, float]:
        """Return the keys of a run's message documents, and when each was written."""
        folder = Path(one.folder.path) / "_ml_metrics" / "messages"
        paths = (
            [path for path in folder.glob("*.json") if not path.name.endswith(".sent.json")] if folder.is_dir() else []
        )
        return {f"{one.run.key}-{path.stem}": path.stat().st_mtime for path in paths}

    def rows(self) -> dict[str, float]:
        """Return the keys of the messages in the warehouse, and when each was decided."""
        with self.warehouse.open(self.name) as warehouse:
            rows = warehouse.messages.since(datetime.now(UTC) - timedelta(days=1), limit=100_000)
        return {row.message: row.timestamp.timestamp() for row in rows}

    def is_durable(self, key: str) -> bool:
        """Whether a message exists outside the process that sends it: as a document, or as a row with its content."""
        run = self.runs.get(key[:36])
        return (run is not None and key in self.keys_of(run)) or key in self.rows()

    def _fork(self, kind: str, log: str, configs: Path | None, kill: Kill | None, **arguments: Any) -> Started:
        options = {"constants": self.constants, "clock_seconds": self.clock_seconds}
        if kill and kill.at_effect:
            options |= {"kill_at_effect": kill.at_effect, "kills": str(self.folder / "kills")}
        path = self.folder / f"{log}.log"
        started = self.host.fork(kind, path, self.environment(configs), options, **arguments)
        if kill and not kill.at_effect:
            threading.Timer(kill.after, self._kill, [started, kill.target]).start()
        return started

    def _kill(self, process: Started, target: str) -> None:
        """kill -9 the process and the task that it supervises, or one of them."""
        victims = [
            *([] if target == "worker" else process.children()),
            *([] if target in {"task", "stopped"} else [process]),
        ]
        if process.has_ended() or not victims:
            return
        for each in victims:
            with suppress(psutil.NoSuchProcess):
                if target == "stopped":
                    each.suspend()
                    threading.Timer(self.pace.period, resume, [each]).start()
                else:
                    each.kill()
        with (self.folder / "kills").open("a") as file:
            file.write(f"{time.time():.3f} {target}\n")


def resume(stopped: psutil.Process) -> None:
    with suppress(psutil.NoSuchProcess):
        stopped.resume()


def end_of(process: Started, seconds: float) -> int:
    """Wait for the end of a process, which is killed after some time. Returns the exit code."""
    try:
        return process.wait(seconds)
    except Empty:
        for each in process.children():
            with suppress(psutil.NoSuchProcess):
                each.kill()
        process.kill()
        return process.wait(10)


def seeded(seed: int, name: str) -> random.Random:
    """Return the random numbers of one deployment, which are the same for the same seed."""
    return random.Random(f"{seed} {name}")
