"""What a run needs may be away for ten minutes; a task that Airflow could not publish costs no number."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.configuration import conf
from airflow.models.taskinstance import TaskInstance

from airflow_of_a_run import Airflow
from ml_metrics import ConfigError, TestDefinition
from ml_metrics.airflow import dags, load_mail_settings
from ml_metrics.airflow.operators import run_workload
from ml_metrics.airflow.operators.run import folder_of
from ml_metrics.airflow.operators.run_workload import RunWorkload
from ml_metrics.airflow.operators.tasks import JudgeRun
from ml_metrics.core.errors import StorageError
from ml_metrics.core.model import JobStatus, Workload
from ml_metrics.measure.goodput import GoodputReport
from ml_metrics.pipeline import RunState, patience, steps
from stored_dags import stored_and_read

TEN_MINUTES = timedelta(minutes=10)
NOTICED = timedelta(seconds=30 + 10)
"""Until Airflow takes a worker for lost, at the settings that docs/composer.md states."""
STARTS = timedelta(seconds=20)
"""For the scheduler's loop, and the process of the next try."""


@pytest.mark.filterwarnings("ignore:GitWildMatchPattern:DeprecationWarning")  # Airflow's own, as it looks for plugins
def test_the_tries_of_each_task_reach_over_ten_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow's own arithmetic gives the delays, which differ from run to run."""
    monkeypatch.setattr(dags, "deadline_of", lambda _: None)  # it is stored in a table of its own
    dag = stored_and_read(dags.accelerator_test(TestDefinition(name="t", image="i", command=("c",))))
    for task in dag.tasks:
        for run in range(40):
            waits = delays(task, f"run-{run}")
            assert TEN_MINUTES < sum(waits, timedelta(0)) < 2 * TEN_MINUTES, task.task_id
            assert waits == sorted(waits)
            assert max(waits) <= timedelta(minutes=4)
            assert NOTICED + waits[0] + STARTS <= timedelta(minutes=2), "a worker that was lost"
    # Airflow adds nothing to a delay, and a try takes no time
    shortest = (min(patience.MAX_DELAY, patience.FIRST_DELAY * 2.0**number) for number in range(patience.RETRIES))
    assert sum(shortest) > TEN_MINUTES.total_seconds()


def test_a_workload_is_tried_as_often_as_its_file_states_in_addition() -> None:
    dag = dags.accelerator_test(TestDefinition(name="t", image="i", command=("c",), retries=2))
    assert {task.task_id: task.retries for task in dag.tasks} == {
        "run_workload": 7, **dict.fromkeys(steps.TASKS[1:], 5),
    }  # fmt: skip


def test_airflows_own_option_is_the_first_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    for text, first in (("1", 1.0), ("301", 240.0), ("-1", 0.0)):
        monkeypatch.setenv("AIRFLOW__CORE__DEFAULT_TASK_RETRY_DELAY", text)
        assert patience.first_delay() == first
    monkeypatch.setenv("AIRFLOW__CORE__DEFAULT_TASK_RETRY_DELAY", "soon")
    with pytest.raises(ConfigError, match=r"\[core\] default_task_retry_delay: 'soon' is not a number of seconds"):
        patience.first_delay()


def test_the_default_that_airflow_writes_into_a_new_configuration_is_nobodys_choice(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "airflow.cfg").write_text(
        f"[core]\ndefault_task_retry_delay = {conf.get_default_value(*patience.OPTION)}\n"
    )
    monkeypatch.setenv("AIRFLOW_CONFIG", str(tmp_path / "airflow.cfg"))
    assert patience.first_delay() == patience.FIRST_DELAY


def delays(task: Any, run: str) -> list[timedelta]:
    """Return how long Airflow waits before each retry."""
    now = datetime.now(UTC)
    found = []
    for number in range(1, int(task.retries) + 1):
        one = SimpleNamespace(
            task=task, try_number=number, end_date=now, retry_delay_override=None,
            dag_id="t", task_id=task.task_id, logical_date=run,
        )  # fmt: skip
        found.append(TaskInstance.next_retry_datetime(one) - now)  # type: ignore[arg-type]
    return found


@pytest.fixture
def airflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Airflow:
    """A run whose good workload is recorded, and whose `collect_metrics` failed."""
    monkeypatch.setenv("AIRFLOW__ML_METRICS__STORAGE_ROOT", str(tmp_path / "runs"))
    monkeypatch.setenv("AIRFLOW_CONN_ML_METRICS_WAREHOUSE", f"sqlite:///{tmp_path}/warehouse.db")
    made = Airflow(collect_metrics="failed", **dict.fromkeys(("run_workload", "measure_goodput"), "success"))
    made.states |= dict.fromkeys(("judge_run", "load_history"), "success")
    now = datetime.now(UTC)
    folder = folder_of("t", made.context("judge_run"))
    folder.write("run", {"params": {}})
    folder.write("goodput", {**GoodputReport(found=False).document(), "metrics": []})
    folder.write_workload(Workload(JobStatus.SUCCESS, started_at=now - timedelta(minutes=5), ended_at=now))
    return made


def judged(airflow: Airflow, *, goodput: bool = True) -> RunState:
    test = {"name": "t", "image": "i", "command": ["c"], "goodput": {"enabled": goodput}}
    dag = dags.accelerator_test(TestDefinition.model_validate(test))
    task = dag.get_task("judge_run")
    assert isinstance(task, JudgeRun)
    task.execute(airflow.context("judge_run"))
    (marker,) = load_mail_settings().markers.all()
    assert marker.gate_is_next, "senders find the run, even if no try of the gate does anything"
    state = RunState(folder_of("t", airflow.context("assert_success")))
    gate = dag.get_task("assert_success")
    steps.decide(state, gate.upstream_states(airflow.context("assert_success")))
    return state


@pytest.mark.parametrize("goodput", [True, False])
def test_what_airflow_never_started_is_done_by_the_next_task(airflow: Airflow, goodput: bool) -> None:
    airflow.values["measure_goodput", "started"] = "clear 0"
    state = judged(airflow, goodput=goodput)
    assert [metric.name for metric in state.measured] == ["total_wall_time"]
    assert state.gate is not None
    assert state.gate.reasons == ()


def test_a_task_that_ran_and_failed_is_reported(airflow: Airflow) -> None:
    airflow.values |= dict.fromkeys([("collect_metrics", "started"), ("measure_goodput", "started")], "clear 0")
    state = judged(airflow)
    assert state.collected is None
    assert state.gate is not None
    assert state.gate.reasons == ("Task `collect_metrics` is failed",)


def test_what_ran_before_a_run_was_cleared_did_not_run_now(airflow: Airflow) -> None:
    """Airflow keeps the values of a task that was cleared until a process of it starts, which the broker prevents."""
    airflow.values |= dict.fromkeys([("collect_metrics", "started"), ("measure_goodput", "started")], "clear 0")
    states = airflow.states
    airflow.clear()
    airflow.states = states
    state = judged(airflow)
    assert state.collected is not None
    assert state.gate is not None
    assert state.gate.reasons == ()


def test_what_judge_run_measured_before_a_run_was_cleared_is_not_measured_now(airflow: Airflow) -> None:
    airflow.values["measure_goodput", "started"] = "clear 0"
    judged(airflow)
    airflow.clear()
    airflow.states = {"run_workload": "success", "collect_metrics": "failed", "measure_goodput": "success"}
    gate: Any = dags.accelerator_test(TestDefinition(name="t", image="i", command=("c",))).get_task("assert_success")
    assert gate.upstream_states(airflow.context("assert_success"))["collect_metrics"] == "failed"


@pytest.mark.parametrize("number", [1, 6])
def test_a_bucket_that_is_away_is_no_end_of_the_workload(
    number: int, airflow: Airflow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is away when the run begins, and there again when the end would be recorded."""
    task = RunWorkload(test=TestDefinition(name="t", image="i", command=("c",)), task_id="run_workload")
    monkeypatch.setattr(RunWorkload, "already_ended", lambda *_: False)
    context = {**airflow.context("run_workload"), "params": {}}
    context["ti"].try_number = number
    before = folder_of("t", context).read_workload()

    def away(*_: Any) -> None:
        raise StorageError("gs://my-bucket/runs: no answer")

    monkeypatch.setattr(run_workload, "check_places", away)
    with pytest.raises(Exception, match="no answer") as raised:
        task.execute(context)
    recorded = folder_of("t", context).read_workload()
    if number == 1:
        assert type(raised.value) is StorageError, "Airflow tries it again"
        assert recorded == before
    else:
        assert recorded is not None
        assert (recorded.status, recorded.failure_reason) == (JobStatus.MISSED, "Storage")
