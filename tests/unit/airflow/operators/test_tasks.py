"""The tasks that follow a workload: what each leaves for the next one, and for the process after one that died."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_of_a_run import AFTER, TEST, Played
from ml_metrics import TestDefinition
from ml_metrics.airflow import load_mail_settings, warehouse
from ml_metrics.airflow.operators import tasks
from ml_metrics.airflow.versions import AirflowFailException, TaskDeferred
from ml_metrics.core.errors import StorageError, UnreadableInputError, WarehouseError
from ml_metrics.core.model import JobStatus
from ml_metrics.pipeline import RunState, steps
from ml_metrics.store.markers import Markers
from ml_metrics.warehouse.known_tests import KnownTests
from stored_variables import remembered_variables


@pytest.fixture
def played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Played:
    monkeypatch.setenv("AIRFLOW__ML_METRICS__STORAGE_ROOT", str(tmp_path / "runs"))
    monkeypatch.setenv("AIRFLOW__ML_METRICS__OUTBOX", str(tmp_path / "outbox"))
    monkeypatch.setenv("AIRFLOW_CONN_ML_METRICS_WAREHOUSE", f"sqlite:///{tmp_path}/warehouse.db")
    remembered_variables(monkeypatch)
    return Played()


def refuse(error: Exception) -> Any:
    def refused(*_: Any, **__: Any) -> None:
        raise error

    return refused


def test_input_that_no_retry_improves_fails_each_task_at_once(played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    for step in ("collect", "measure_goodput", "measure_efficiency", "load", "decide"):
        monkeypatch.setattr(steps, step, refuse(UnreadableInputError("run.json: is damaged")))
    for name in AFTER:
        with pytest.raises(AirflowFailException, match="is damaged"):
            played.play(name)


def test_a_measuring_task_shows_that_it_ran_before_anything_can_fail(
    played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "collect", refuse(ValueError("of a metric")))
    played.airflow.clear_number = 3
    with pytest.raises(ValueError, match="of a metric"):
        played.play("collect_metrics")
    assert played.airflow.values["collect_metrics", "started"] == "clear 3"


def test_a_measuring_task_returns_what_it_found(played: Played) -> None:
    found = {name: played.dag.get_task(name).execute(played.airflow.context(name)) for name in AFTER[:2]}
    assert found == {
        "collect_metrics": "1 metric from 0 files",
        "measure_goodput": "no goodput: there is no goodput log",
    }


def test_work_that_is_done_in_another_task_s_place_does_not_wait(
    played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`judge_run` cannot leave its worker for the triggerer, which would call `collect_metrics` again."""
    played.airflow.states |= {"collect_metrics": "failed", "measure_goodput": "failed"}
    monkeypatch.setattr(steps, "memory_visible_at", refuse(TaskDeferred(trigger=None, method_name="resume")))
    played.play("judge_run")
    assert RunState(played.folder).collected is not None


def test_storage_that_fails_while_judge_run_measures_is_tried_again(
    played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    played.airflow.states["collect_metrics"] = "failed"
    monkeypatch.setattr(steps, "collect", refuse(StorageError("gs://b: no answer")))
    with pytest.raises(StorageError, match="no answer"):
        played.play("judge_run")


def test_a_failure_of_work_in_another_task_s_place_is_that_task_s_failure(
    played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    played.airflow.states |= {"collect_metrics": "failed", "measure_goodput": "failed"}
    monkeypatch.setattr(steps, "collect", refuse(ValueError("of a metric")))
    played.play("judge_run", "load_history")
    with pytest.raises(AirflowFailException, match=r"^Task `collect_metrics` is failed; total_wall_time: "):
        played.play("assert_success")


def test_a_task_that_airflow_does_not_know_fails_the_run(played: Played) -> None:
    played.play("collect_metrics", "measure_goodput", "judge_run")
    with pytest.raises(AirflowFailException, match=r"^Task `load_history` is missing$"):
        played.play("assert_success")


def test_no_process_that_dies_later_leaves_an_older_decision(played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    played.play(*AFTER)
    monkeypatch.setattr(steps, "decide", refuse(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        played.play("assert_success")
    assert RunState(played.folder).gate is None


def test_the_gate_knows_what_it_has_decided_and_posted(played: Played) -> None:
    """Its callback decides again only if it has not, and sends what it has written."""
    gate: Any = played.dag.get_task("assert_success")
    played.play_workload(JobStatus.FAILURE)
    played.play(*AFTER[:4])
    assert (gate.decided, gate.posted) == (False, None)
    with pytest.raises(AirflowFailException, match="ExitCode:3"):
        played.play("assert_success")
    assert gate.decided
    assert gate.posted is not None


def test_senders_find_a_run_until_its_gate_has_decided(played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    played.play(*AFTER[:4])
    gate: Any = played.dag.get_task("assert_success")
    monkeypatch.setattr(gate, "post_message", refuse(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        played.play("assert_success")
    (marker,) = load_mail_settings().markers.all()
    assert not marker.gate_is_next, "the gate has begun, and may be deciding now"


def test_a_marker_that_cannot_be_written_stops_no_run(
    played: Played, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(Markers, "add_run", refuse(StorageError("the disk is full")))
    played.play(*AFTER)
    assert "no sender can find this run if its gate is killed now: the disk is full" in caplog.text


def test_the_gate_removes_what_the_workload_s_last_process_left(
    played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    removed: list[Any] = []
    monkeypatch.setattr(tasks, "remove_leftovers", lambda test, _, folder: removed.append((test, folder)))
    played.play_workload(JobStatus.FAILURE)
    played.play(*AFTER[:4])
    with pytest.raises(AirflowFailException):
        played.play("assert_success")
    assert removed == [(TEST, played.folder)]


@pytest.mark.parametrize("source", ["", "include/t.yaml"])
@pytest.mark.usefixtures("played")
def test_a_test_in_python_becomes_known_by_its_runs_and_a_file_does_not(source: str) -> None:
    Played(TestDefinition.from_file(TEST.model_dump(mode="json", exclude_unset=True), source)).play(*AFTER[:4])
    with warehouse() as opened:
        assert set(opened.known_tests.read().in_python) == (set() if source else {"t"})


def test_a_test_that_cannot_become_known_loses_no_run(played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KnownTests, "register", refuse(WarehouseError("too many writers")))
    played.play(*AFTER[:4])
    assert played.row == ("success", None)


@pytest.mark.usefixtures("played")
def test_only_what_its_dag_measures_is_measured_by_judge_run(monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[str] = []
    monkeypatch.setattr(steps, "measure_goodput", lambda *_: measured.append("goodput"))
    without = TEST.model_copy(update={"goodput": TEST.goodput.model_copy(update={"enabled": False})})
    Played(without).play("collect_metrics", "judge_run")
    assert measured == []
