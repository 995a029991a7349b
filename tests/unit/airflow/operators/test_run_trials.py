"""The task that makes the trials of an experiment: what it starts, waits for, and never starts twice."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.bases.operator import TRIGGER_FAIL_REPR

from ml_metrics.airflow.operators.experiments import GiveAnswer, RunTrials
from ml_metrics.airflow.versions import AirflowFailException, DagRunTriggerException, TaskDeferred
from ml_metrics.core.errors import StorageError
from ml_metrics.core.model import JobStatus, Run, Workload
from ml_metrics.pipeline.experiments import COMPARE, open_journal, read_result
from ml_metrics.store.run_folder import RunFolder

FORM = {
    "test": "t",
    "base": "app:1",
    "candidate": "app:2",
    "metrics": ["loss"],
    "effect": 2,
    "max_runs": 12,
    "parameter": "image",
}
KEY = Run(COMPARE, COMPARE, "by_hand", "local").key
TASK = RunTrials(task_id="run_trials")


class Airflow:
    """The runs that Airflow knows, with their states."""

    dag_id, run_id = COMPARE, "by_hand"

    def __init__(self, root: Path) -> None:
        self.root = root
        self.runs: dict[str, str] = {}
        self.tasks = dict.fromkeys(("run_workload", "collect_metrics"), "success")
        self.paused = False
        self.pushed: dict[str, str] = {}

    def get_dr_count(self, *, dag_id: str, run_ids: list[str], states: list[str] | None = None) -> int:
        assert dag_id == "t"
        return sum(run in self.runs and (not states or self.runs[run] in states) for run in run_ids)

    def get_task_states(self, *, dag_id: str, run_ids: list[str], task_ids: list[str]) -> dict[str, dict[str, str]]:
        assert (dag_id, list(self.runs)[-1:]) == ("t", run_ids)
        return {run_ids[0]: {task: state for task, state in self.tasks.items() if task in task_ids}}

    def get_dag(self, _: str) -> SimpleNamespace:
        return SimpleNamespace(is_paused=self.paused)

    def xcom_push(self, key: str, value: str) -> None:
        self.pushed[key] = value

    @property
    def context(self) -> dict[str, Any]:
        dag_run = SimpleNamespace(dag_id=COMPARE, run_id="by_hand", conf=FORM)
        return {"dag_run": dag_run, "ti": self, "params": FORM}

    def end(self, run_id: str, value: float, metrics: tuple[str, ...] = ("loss",)) -> None:
        """End a run as the tasks of a test do."""
        folder = RunFolder.of(Run("t", "t", run_id, "local"), str(self.root))
        folder.write("run", {"trial": ["image"]})
        folder.write_workload(Workload(JobStatus.SUCCESS, node="a"))
        metric = {"tag": "loss", "strategy": "final", "value": value, "points": 1}
        made = [{"name": name, **metric} for name in metrics]
        folder.write("metrics", {"metrics": made, "warnings": [], "files": 1})
        self.runs[run_id] = "failed"


@pytest.fixture
def airflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Airflow:
    configs = tmp_path / "metric_configs"
    configs.mkdir()
    test = {"name": "t", "image": "app:1", "command": ["c"], "by_hand": ["image"]}
    (configs / "t.yaml").write_text(json.dumps(test))
    monkeypatch.setenv("AIRFLOW__ML_METRICS__CONFIG_ROOT", str(configs))
    monkeypatch.setenv("AIRFLOW__ML_METRICS__STORAGE_ROOT", str(tmp_path))
    return Airflow(tmp_path)


def test_a_comparison_that_is_resumed_at_every_point(airflow: Airflow) -> None:
    """Each try begins anew, as after a kill: before the run was started, while it runs, and once it has ended."""
    started: list[str] = []
    for number in range(12):
        with pytest.raises(DagRunTriggerException) as starts:
            TASK.execute(airflow.context)
        trigger = starts.value
        assert trigger.conf["trial"] == "yes"
        assert (trigger.deferrable, trigger.wait_for_completion, trigger.reset_dag_run) == (True, True, False)
        started.append(trigger.dag_run_id)
        airflow.runs[trigger.dag_run_id] = "running"
        with pytest.raises(TaskDeferred) as waits:
            TASK.resume_execution(TRIGGER_FAIL_REPR, {}, airflow.context)
        assert waits.value.trigger.run_ids == [trigger.dag_run_id]
        assert waits.value.method_name == "execute_complete"
        level = 1.5 if trigger.conf["image"] == "app:2" else 1.0
        airflow.end(trigger.dag_run_id, level + number / 1000)
    result = TASK.execute(airflow.context)
    assert len(set(started)) == 12
    assert result["failed"]
    assert TASK.execute_complete(airflow.context) == result, "a cleared task reads the same journal"
    sent: list[tuple[Any, ...]] = []
    task = GiveAnswer(task_id="give_answer", post_answer=lambda *told: str(sent.append(told)))
    for params in (FORM, {}):
        with pytest.raises(AirflowFailException, match="1 worse"):
            task.execute({**airflow.context, "params": params})
    answer = read_result(str(airflow.root), KEY)
    assert sent == [(KEY, answer, test, ("by_hand", "")) for test in ("t", "")], "no test has the name None"
    assert "**1 worse**" in airflow.pushed["comment"]
    assert "<failure" in airflow.pushed["junit"]


def test_the_log_shows_five_values_of_a_trial(airflow: Airflow, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(DagRunTriggerException) as starts:
        TASK.execute(airflow.context)
    airflow.end(starts.value.dag_run_id, 1.5, ("loss", "a", "b", "c", "d", "e", "f"))
    with pytest.raises(DagRunTriggerException):
        TASK.execute(airflow.context)
    told = [line for line in capsys.readouterr().out.splitlines() if "run 1 of at most" in line]
    assert max(line.count(" 1.5") for line in told) == 5


def test_a_trial_whose_documents_are_lost_is_no_trial_that_did_not_start(airflow: Airflow) -> None:
    with pytest.raises(DagRunTriggerException) as starts:
        TASK.execute(airflow.context)
    airflow.runs[starts.value.dag_run_id] = "failed"
    with pytest.raises(StorageError, match=r"workload\.json.*`run_workload` has written it"):
        TASK.execute(airflow.context)
    assert open_journal(str(airflow.root), KEY).trials == ()
    airflow.tasks["run_workload"] = "failed"
    with pytest.raises(DagRunTriggerException):
        TASK.execute(airflow.context)
    (trial,) = open_journal(str(airflow.root), KEY).trials
    assert trial.reason == "the workload was not started"


def test_no_trial_is_started_while_its_dag_is_paused(airflow: Airflow) -> None:
    airflow.paused = True
    with pytest.raises(AirflowFailException, match="is paused: unpause it, and clear this task"):
        TASK.execute(airflow.context)
    journal = open_journal(str(airflow.root), KEY)
    assert (journal.trials, journal.deployment) == ((), "local"), "another deployment does not remove it"


def test_what_is_asked_wrongly_fails_at_once(airflow: Airflow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FORM, "test", "other")
    with pytest.raises(AirflowFailException, match="no test 'other'"):
        TASK.execute(airflow.context)
