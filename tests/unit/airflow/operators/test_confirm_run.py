"""The task that starts another run to confirm a verdict."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ml_metrics import TestDefinition, accelerator_test
from ml_metrics.airflow.operators.run import folder_of
from ml_metrics.airflow.operators.tasks import ConfirmRun
from ml_metrics.airflow.versions import AirflowFailException, AirflowSkipException, DagRunTriggerException
from ml_metrics.config.definition import Quarantine
from ml_metrics.core.model import JobStatus, Workload
from ml_metrics.judge import Judgement
from ml_metrics.judge.judgement import Unconfirmed
from ml_metrics.measure import Collected
from ml_metrics.measure.goodput import GoodputReport
from ml_metrics.pipeline import RunState

TEST = TestDefinition(name="t", image="i", command=("c",))
CONF = {"epochs": 5}


def context(*, paused: bool = False) -> dict[str, Any]:
    def get_dag(_: str) -> SimpleNamespace:
        return SimpleNamespace(is_paused=paused)

    dag_run = SimpleNamespace(dag_id="t", run_id="by_hand", conf=CONF)
    return {"dag_run": dag_run, "ti": SimpleNamespace(dag_id="t", get_dag=get_dag)}


@pytest.fixture(autouse=True)
def _storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__ML_METRICS__STORAGE_ROOT", str(tmp_path))


def execute(given: dict[str, Any], unconfirmed: tuple[Unconfirmed, ...], test: TestDefinition = TEST) -> None:
    folder_of("t", given).write("verdicts", Judgement((), (), passed=False, unconfirmed=unconfirmed).document())
    ConfirmRun(task_id="confirm_run", test=test).execute(given)


def test_a_trial_starts_no_run() -> None:
    given = context()
    folder_of("t", given).write("run", {"trial": ["image"]})
    with pytest.raises(AirflowSkipException):
        execute(given, (Unconfirmed("loss", 1, 2, rerun=True),))


def test_a_run_with_the_same_parameters_is_started_once() -> None:
    with pytest.raises(DagRunTriggerException) as raised:
        execute(context(), (Unconfirmed("loss", 1, 2, rerun=True),))
    started = raised.value
    assert (started.trigger_dag_id, started.dag_run_id, started.conf) == ("t", "confirm__by_hand__1", CONF)
    assert started.skip_when_already_exists
    assert not started.reset_dag_run
    assert started.logical_date is None


@pytest.mark.parametrize("unconfirmed", [(), (Unconfirmed("loss", 1, 2),)])
def test_no_run_is_started_if_nothing_waits_for_it(unconfirmed: tuple[Unconfirmed, ...]) -> None:
    with pytest.raises(AirflowSkipException, match="waits for another run"):
        execute(context(), unconfirmed)


def test_no_run_is_started_if_nothing_was_judged() -> None:
    with pytest.raises(AirflowSkipException, match="waits for another run"):
        ConfirmRun(task_id="confirm_run", test=TEST).execute(context())


def test_no_run_is_started_while_the_dag_is_paused() -> None:
    with pytest.raises(AirflowSkipException, match="the DAG is paused"):
        execute(context(paused=True), (Unconfirmed("loss", 1, 2, rerun=True),))


def test_no_run_is_started_in_quarantine_where_nobody_would_be_notified() -> None:
    until = datetime.now(UTC).date() + timedelta(days=2)
    quarantined = TEST.model_copy(update={"quarantine": Quarantine(until=until, reason="flaky")})
    with pytest.raises(AirflowSkipException, match="waits for another run"):
        execute(context(), (Unconfirmed("loss", 1, 2, rerun=True),), quarantined)


def test_the_gate_fails_a_run_whose_confirmation_could_not_be_started() -> None:
    conditions = {"loss": {"comparison": "less", "success_threshold": {"fixed_value": 1}, "confirm": 2}}
    config = {"metric_success_conditions": conditions}
    test = TestDefinition(name="t", image="i", command=("c",), regression_test_config=config)
    given = context()
    folder = folder_of("t", given)
    folder.write("run", {"params": {}})
    folder.write_workload(Workload(JobStatus.SUCCESS))
    for document in ("metrics", "efficiency"):
        folder.write(document, Collected(()).document())
    folder.write("goodput", {**GoodputReport(found=False).document(), "metrics": []})
    folder.write("verdicts", Judgement((), (), passed=True).document())

    def states(run_ids: list[str], task_ids: list[str], **_: str) -> dict[str, dict[str, str]]:
        return {run_ids[0]: {task: "failed" if task == "confirm_run" else "success" for task in task_ids}}

    given["ti"] = SimpleNamespace(dag_id="t", run_id="by_hand", get_task_states=states)
    with pytest.raises(AirflowFailException, match="Task `confirm_run` is failed"):
        accelerator_test(test).get_task("assert_success").execute(given)
    gate = RunState(folder).gate
    assert gate is not None
    assert gate.problems == {"task:confirm_run": "Task `confirm_run` is failed"}
