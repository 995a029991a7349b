"""What Airflow knows about the tasks of one run, for tests that play them without Airflow."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from airflow.sdk.execution_time.context import OutletEventAccessors

from ml_metrics import TestDefinition
from ml_metrics.airflow import dags, warehouse
from ml_metrics.airflow.operators.run import folder_of, run_of
from ml_metrics.core.model import JobStatus, Workload

if TYPE_CHECKING:
    from airflow.sdk import DAG

    from ml_metrics.store.run_folder import RunFolder

NOW = datetime.now(UTC)
TEST = TestDefinition.model_validate({
    "name": "t", "image": "i", "command": ["c"], "owner": "a",
    "regression_test_config": {"metric_success_conditions": {
        "total_wall_time": {"comparison": "less", "success_threshold": {"fixed_value": 3600}},
    }},
})  # fmt: skip
AFTER = ("collect_metrics", "measure_goodput", "judge_run", "load_history", "assert_success")


class Airflow:
    """The values that tasks of one run leave in Airflow, and their states."""

    def __init__(self, **states: str) -> None:
        self.states, self.values = states, dict[tuple[str, str], Any]()
        self.clear_number = 0

    def ti(self, task: str, **more: Any) -> Any:
        return SimpleNamespace(
            dag_id="t", run_id="r", task_id=task, log_url="", try_number=1, max_tries=5, **more,
            xcom_push=lambda key, value: self.values.__setitem__((task, key), value),
            xcom_pull=lambda task_ids, key: self.values.get((task_ids, key)),
            get_task_states=lambda **_: {"r": self.states},
        )  # fmt: skip

    def context(self, task: str) -> dict[str, Any]:
        """Return what the next process of a task gets. Airflow removes the values of its last one."""
        self.values = {name: value for name, value in self.values.items() if name[0] != task}
        dag_run = SimpleNamespace(
            dag_id="t", run_id="r", start_date=NOW, run_after=NOW, clear_number=self.clear_number, conf={}
        )
        return {"dag_run": dag_run, "ti": self.ti(task), "outlet_events": OutletEventAccessors()}

    def clear(self) -> None:
        """Clear the whole run, as a user does. The values of its tasks stay."""
        self.clear_number += 1
        self.states = {}


class Played:
    """A run whose tasks are executed one after the other."""

    def __init__(self, test: TestDefinition = TEST) -> None:
        self.airflow = Airflow()
        self.dag: DAG = dags.accelerator_test(test)
        self.folder: RunFolder = folder_of("t", self.airflow.context("run_workload"))
        self.run = run_of("t", self.airflow.context("run_workload"))
        self.play_workload(JobStatus.SUCCESS)

    def play_workload(self, status: JobStatus) -> None:
        run, now = self.run, datetime.now(UTC)
        identity = {"test": run.test, "dag_id": run.dag_id, "run_id": run.run_id, "deployment": run.deployment}
        self.folder.write("run", {**identity, "test_file": TEST.model_dump(mode="json"), "params": {}})
        self.airflow.values["run_workload", "run_folder"] = self.folder.path
        end = Workload(status, started_at=now - timedelta(minutes=1), ended_at=now)
        reason = None if status is JobStatus.SUCCESS else "ExitCode:3"
        self.folder.write_workload(replace(end, failure_reason=reason))
        self.airflow.states["run_workload"] = "success" if status is JobStatus.SUCCESS else "failed"

    def play(self, *tasks: str) -> None:
        for name in tasks:
            task: Any = self.dag.get_task(name)
            task.execute(self.airflow.context(name))
            self.airflow.states[name] = "success"

    @property
    def row(self) -> tuple[str, str | None] | None:
        with warehouse() as opened:
            found = opened.runs.newest("t", 1)
        return (found[0].job_status, found[0].failure_reason) if found else None
