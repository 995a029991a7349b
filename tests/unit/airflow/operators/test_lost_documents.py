"""A document that Airflow knows as written, and that is not there, is an error: never a run that did not start."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException

from airflow_of_a_run import AFTER, Played
from ml_metrics.airflow import warehouse
from ml_metrics.airflow.callbacks import notify_run
from ml_metrics.airflow.operators.attempts import start_attempt
from ml_metrics.airflow.operators.run import folder_of
from ml_metrics.airflow.storage_mark import mark_storage
from ml_metrics.core.errors import StorageError
from ml_metrics.core.model import JobStatus, Workload
from ml_metrics.core.settings import Settings
from stored_variables import remembered_variables

KEY, OTHER_KEY = "the first of two keys", "the second of two keys"
WRITERS = {
    "run": "run_workload", "workload": "run_workload", "metrics": "collect_metrics", "goodput": "measure_goodput",
    "efficiency": "judge_run", "verdicts": "judge_run",
}  # fmt: skip


@pytest.fixture
def played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Played:
    monkeypatch.setenv("AIRFLOW__ML_METRICS__STORAGE_ROOT", str(tmp_path / "runs"))
    monkeypatch.setenv("AIRFLOW__ML_METRICS__OUTBOX", str(tmp_path / "outbox"))
    monkeypatch.setenv("AIRFLOW__ML_METRICS__DOCUMENTS_KEY", KEY)
    monkeypatch.setenv("AIRFLOW_CONN_ML_METRICS_WAREHOUSE", f"sqlite:///{tmp_path}/warehouse.db")
    remembered_variables(monkeypatch)
    return Played()


def unmounted(played: Played, _: pytest.MonkeyPatch) -> Callable[[], object]:
    """Take the run folder away; return what brings it back."""
    aside = Path(f"{played.folder.path}-aside")
    Path(played.folder.path).rename(aside)

    def mount() -> None:
        shutil.rmtree(played.folder.path, ignore_errors=True)
        aside.rename(played.folder.path)

    return mount


def with_another_key(_: Played, monkeypatch: pytest.MonkeyPatch) -> Callable[[], object]:
    """Exchange the key that documents are signed with; return what puts the first one behind the new one."""
    monkeypatch.setenv("AIRFLOW__ML_METRICS__DOCUMENTS_KEY", OTHER_KEY)
    return lambda: monkeypatch.setenv("AIRFLOW__ML_METRICS__DOCUMENTS_KEY", f"{OTHER_KEY},{KEY}")


@pytest.mark.parametrize("status", [JobStatus.SUCCESS, JobStatus.FAILURE])
@pytest.mark.parametrize("lose", [unmounted, with_another_key])
@pytest.mark.parametrize("before", range(len(AFTER)))
def test_a_run_whose_documents_are_lost_stays_as_it_is_until_they_are_back(
    before: int, lose: Any, status: JobStatus, played: Played, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    played.play_workload(status)
    played.play(*AFTER[:before])
    row = played.row
    bring_back = lose(played, monkeypatch)
    for name in AFTER[before:]:
        with pytest.raises(StorageError, match=r"`run_workload`.*absent or not believed.*documents_key"):
            played.play(name)  # Airflow tries it again
    assert played.row == row
    assert not list((tmp_path / "outbox").glob("*"))
    bring_back()
    played.play(*AFTER[before:-1])
    assert played.row == (("success", None) if status is JobStatus.SUCCESS else ("failure", "ExitCode:3"))


@pytest.mark.parametrize("document", WRITERS)
def test_each_document_that_a_task_has_written_is_missed(document: str, played: Played) -> None:
    played.play(*AFTER[:3])
    Path(played.folder.document_path(document)).unlink()
    with pytest.raises(StorageError, match=rf"{document}\.json.*`{WRITERS[document]}` has written it"):
        played.play("load_history")
    assert played.row is None
    played.airflow.states[WRITERS[document]] = "failed"
    played.airflow.values.clear()
    played.play("load_history")
    assert played.row is not None


def test_a_mail_about_lost_documents_claims_nothing_about_the_workload(
    played: Played, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It opens no incident either: the run may be a trial. Once the documents are back, the gate tells what is true."""
    played.play(*AFTER[:4])
    bring_back = unmounted(played, monkeypatch)
    gate: Any = played.dag.get_task("assert_success")
    with pytest.raises(StorageError):
        played.play("assert_success")
    notify_run({"task": gate, **played.airflow.context("assert_success")})
    (mail,) = (tmp_path / "outbox").glob("*.eml")
    text = mail.read_text()
    assert "Subject: [ML Metrics] t failed: its documents cannot be read" in text
    assert "never started" not in text
    bring_back()
    played.play("assert_success")
    with warehouse() as opened:
        assert opened.incidents.find_open("t") is None
    assert list((tmp_path / "outbox").glob("*.eml")) == [mail]


def test_a_callback_that_airflow_does_not_answer_sends_what_it_knows(
    played: Played, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    played.play("collect_metrics", "measure_goodput")
    gate: Any = played.dag.get_task("assert_success")
    notify_run({"task": gate, "dag_run": played.airflow.context("assert_success")["dag_run"]})
    assert "whether verdicts.json was written is unknown: KeyError: 'ti'" in caplog.text
    (mail,) = (tmp_path / "outbox").glob("*.eml")
    assert "task assert_success failed" in mail.read_text()


def test_a_run_whose_workload_no_process_started_is_recorded_as_that(played: Played) -> None:
    shutil.rmtree(played.folder.path)
    played.airflow.values.clear()
    played.airflow.states["run_workload"] = "failed"
    played.play(*AFTER[:4])
    assert played.row == ("missed", "NotStarted")


def test_a_task_that_no_airflow_answers_is_tried_again(played: Played) -> None:
    def down(**_: Any) -> None:
        raise ConnectionError("the API server is down")

    shutil.rmtree(played.folder.path)
    played.airflow.values.clear()
    context = played.airflow.context("load_history")
    context["ti"].get_task_states = down
    task: Any = played.dag.get_task("load_history")
    with pytest.raises(ConnectionError):
        task.execute(context)
    assert played.row is None


UNMOUNTED = r"Is the storage mounted\?"


def unmount(played: Played) -> None:
    mark_storage(Settings.load())
    shutil.rmtree(played.folder.root)


@pytest.mark.parametrize("task", AFTER)
def test_no_task_concludes_anything_from_storage_that_is_not_mounted(task: str, played: Played) -> None:
    """Not even that a workload did not start, of which Airflow knows nothing."""
    unmount(played)
    played.airflow.values.clear()
    played.airflow.states = {"run_workload": "failed"}
    with pytest.raises(StorageError, match=UNMOUNTED):
        played.play(task)
    assert played.row is None
    assert not Path(played.folder.root).exists()


def test_no_workload_starts_on_storage_that_is_not_mounted(played: Played) -> None:
    """Nor is anything recorded there, where no other task would find it: not even by the last try."""
    unmount(played)
    context = {**played.airflow.context("run_workload"), "params": {}}
    context["ti"].try_number = 6
    task: Any = played.dag.get_task("run_workload")
    for start in (lambda: task.execute(context), lambda: task.trigger_reentry(context, {})):
        with pytest.raises(StorageError, match=UNMOUNTED):
            start()
    assert not Path(played.folder.root).exists()


@pytest.mark.parametrize("error", [None, AirflowException("the pod failed")])
def test_the_end_of_a_workload_is_not_recorded_where_nobody_finds_it(error: Exception | None, played: Played) -> None:
    """The next try takes the workload over."""
    task: Any = played.dag.get_task("run_workload")
    context = played.airflow.context("run_workload")

    def run_and_unmount() -> None:
        with task.recorded(context):
            task.pending = start_attempt(folder_of(task.test.name, context), context["ti"], "i")
            unmount(played)
            if error:
                raise error

    with pytest.raises(StorageError, match=UNMOUNTED):
        run_and_unmount()
    task.observed = Workload(JobStatus.SUCCESS)
    task._unrecorded = played.folder
    with pytest.raises(StorageError, match=UNMOUNTED):
        task.record_observed()  # the pod is deleted next
    assert not Path(played.folder.root).exists()
