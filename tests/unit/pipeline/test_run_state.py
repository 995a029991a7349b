"""The documents of a run: each is read at most once, and what is missing or damaged is reported."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from ml_metrics import TestDefinition
from ml_metrics.core.errors import StorageError, UnreadableInputError
from ml_metrics.core.model import JobStatus, Metric, Run, Workload
from ml_metrics.judge import Alert, Judgement
from ml_metrics.judge.judgement import AlertKind
from ml_metrics.measure import Collected
from ml_metrics.pipeline import RunState
from ml_metrics.pipeline.run_state import NEVER_STARTED
from ml_metrics.store.documents import Documents
from ml_metrics.store.run_folder import RunFolder

TEST = TestDefinition(name="t", image="i", command=("c",))


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder.of(Run("t", "d", "r", "x"), str(tmp_path))


def write_identity(folder: RunFolder) -> None:
    identity = {"test": "t", "dag_id": "d", "run_id": "r", "deployment": "x"}
    folder.write("run", {**identity, "test_file": TEST.model_dump(mode="json"), "params": {"epochs": 3}})


def test_an_empty_folder_has_a_workload_that_never_started_and_nothing_else(folder: RunFolder) -> None:
    state = RunState(folder)
    assert (state.recorded_workload, state.workload) == (None, NEVER_STARTED)
    assert (state.metrics, state.collected, state.judgement, state.gate, state.params) == ((), None, None, None, {})


def test_the_identity_of_a_run_is_read_from_its_folder(folder: RunFolder) -> None:
    write_identity(folder)
    run, test = RunState(folder).identity
    assert (run.test, run.dag_id, run.run_id, run.deployment, test.name) == ("t", "d", "r", "x", "t")


@pytest.mark.parametrize(
    ("document", "message"),
    [(None, "is not a run folder"), ({"test": "t"}, "does not identify a run")],
)
def test_a_folder_without_an_identity_is_rejected(
    folder: RunFolder, document: dict[str, str] | None, message: str
) -> None:
    if document:
        folder.write("run", document)
    with pytest.raises(UnreadableInputError, match=message):
        _ = RunState(folder).identity


def test_a_run_in_the_folder_of_another_is_refused_unless_it_is_only_looked_at(tmp_path: Path) -> None:
    elsewhere = RunFolder.of(Run("t", "d", "another", "x"), str(tmp_path))
    write_identity(elsewhere)
    with pytest.raises(UnreadableInputError, match="but is in the folder of another"):
        _ = RunState(elsewhere).identity
    assert RunState(replace(elsewhere, believe_unsigned=True)).identity[0].run_id == "r"


def test_a_measured_metric_counts_before_one_that_is_computed_from_it(folder: RunFolder) -> None:
    measured, computed = Metric("tokens", 97, "tokens", "as_written"), Metric("tokens", 12, "tokens", "computed")
    folder.write("metrics", Collected((measured,)).document())
    folder.write("efficiency", Collected((computed,)).document())
    assert RunState(folder).metrics == (measured,)


def test_a_collected_metric_takes_precedence_over_a_goodput_metric_of_the_same_name(folder: RunFolder) -> None:
    collected = Metric("goodput", 97, "goodput", "as_written")
    measured = Metric("goodput", 12, "goodput", "goodput")
    other = Metric("badput_tpu_init", 3, "badput", "goodput")
    folder.write("metrics", Collected((collected,)).document())
    folder.write("goodput", Collected((measured, other)).document())
    assert RunState(folder).metrics == (collected, other)


def test_each_document_is_read_once(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    write_identity(folder)
    folder.write_workload(Workload(JobStatus.SUCCESS))
    folder.write("metrics", Collected(()).document())
    folder.write("gate", {"reasons": [], "troubles": {}})
    reads: Counter[str] = Counter()
    read = Documents.read
    monkeypatch.setattr(Documents, "read", lambda self, name: (reads.update([name]), read(self, name))[1])
    state = RunState(folder)
    for _ in range(3):
        _ = (state.identity, state.params, state.workload, state.collected, state.metrics, state.judgement, state.gate)
    assert reads == dict.fromkeys(("run", "workload", "metrics", "goodput", "efficiency", "verdicts", "gate"), 1)


def test_step_times_of_the_goodput_log_count_before_those_of_points_but_not_before_a_tag(folder: RunFolder) -> None:
    of_points = [Metric(name, 2.0, "loss", "step_times") for name in ("step_time_p50", "step_time_p90")]
    tag = Metric("step_time_p99", 3.0, "step_time", "p99")
    recorded = [Metric(name, 1.0, name, "goodput") for name in ("step_time_p50", "step_time_p99")]
    folder.write("metrics", Collected((*of_points, tag)).document())
    assert RunState(folder).metrics == (*of_points, tag)
    folder.write("goodput", Collected(tuple(recorded)).document())
    assert set(RunState(folder).metrics) == {recorded[0], of_points[1], tag}
    assert RunState(folder).collected == Collected((*of_points, tag))


def test_what_is_strict_raises_for_a_document_that_somebody_replaced(folder: RunFolder) -> None:
    write_identity(folder)
    state = RunState(folder)
    Path(folder.path, "_ml_metrics/gate.json").write_text('{"reasons": [], "troubles": {}}')
    assert state.gate is None, "it is not signed"
    with pytest.raises(UnreadableInputError):
        _ = state.strict().gate
    strict = state.strict()
    assert strict.strict() is strict


def test_a_document_that_was_written_and_is_gone_is_an_error(folder: RunFolder) -> None:
    state = RunState(folder, lambda document: document == "metrics")
    assert (state.goodput, state.efficiency, state.gate) == (None, None, None)
    with pytest.raises(StorageError, match=r"metrics\.json.*the task `collect_metrics` has written it"):
        _ = state.collected
    with pytest.raises(StorageError, match=r"metrics\.json"):
        _ = state.strict().collected


@pytest.mark.parametrize("read", ["recorded_workload", "params", "has_begun"])
def test_a_run_whose_beginning_is_lost_is_no_run_that_did_not_begin(folder: RunFolder, read: str) -> None:
    with pytest.raises(StorageError, match=r"run\.json.*`run_workload`"):
        getattr(RunState(folder, lambda document: document == "run"), read)


def test_a_document_that_is_there_is_read_whatever_else_is_lost(folder: RunFolder) -> None:
    folder.write_workload(Workload(JobStatus.SUCCESS))
    assert RunState(folder, lambda _: True).workload == Workload(JobStatus.SUCCESS)


def test_a_run_with_the_file_of_another_test_is_refused(folder: RunFolder) -> None:
    write_identity(folder)
    other = TEST.model_copy(update={"name": "u"}).model_dump(mode="json")
    folder.write("run", {**(folder.read("run") or {}), "test_file": other})
    with pytest.raises(UnreadableInputError, match="but is in the folder of another"):
        _ = RunState(folder).identity


def test_files_of_a_run_whose_workload_is_lost_are_not_listed(folder: RunFolder) -> None:
    with pytest.raises(StorageError, match=r"workload\.json"):
        RunState(folder, lambda document: document == "workload").files()


def test_a_run_has_begun_once_its_identity_is_written(folder: RunFolder) -> None:
    assert not RunState(folder).has_begun
    write_identity(folder)
    assert RunState(folder).has_begun


@pytest.mark.parametrize(
    ("start", "trial", "started_by", "notify"),
    [
        ({}, (), "", ()),
        ({"trial": None, "started_by": None, "notify": None}, (), "", ()),
        ({"trial": ["image", 7], "started_by": "alice", "notify": ["a@b.c"]}, ("image", "7"), "alice", ("a@b.c",)),
    ],
)
def test_how_a_run_was_started(
    folder: RunFolder, start: dict[str, object], trial: tuple[str, ...], started_by: str, notify: tuple[str, ...]
) -> None:
    assert (RunState(folder).trial, RunState(folder).started_by, RunState(folder).notify) == ((), "", ())
    folder.write("run", start)
    state = RunState(folder)
    assert (state.trial, state.started_by, state.notify, state.params) == (trial, started_by, notify, {})


def test_a_workload_has_no_bill_of_its_own_and_a_goodput_log_neither(folder: RunFolder) -> None:
    bill, loss = Metric("chip_hours", 1.0, "chip_hours", "as_written"), Metric("loss", 2.0, "loss", "final")
    computed = Metric("chip_hours", 7.0, "chip_hours", "computed")
    folder.write("metrics", Collected((bill, loss)).document())
    folder.write("goodput", Collected((bill,)).document())
    assert RunState(folder).metrics == (loss,)
    folder.write("efficiency", Collected((computed,)).document())
    assert RunState(folder).metrics == (loss, computed)


def test_alerts_have_names_that_are_the_same_in_each_run(folder: RunFolder) -> None:
    assert RunState(folder).alerts == {}
    alerts = (Alert(AlertKind.OUT_OF_BOUNDS, "loss", "0.7 is high"), Alert(AlertKind.JOB_STATUS, None, "it failed"))
    folder.write("verdicts", Judgement((), alerts, passed=False).document())
    folder.write_workload(Workload(JobStatus.FAILURE, failure_reason="ExitCode:3"))
    named = {"out_of_bounds:loss": "0.7 is high", "job_status:failure/ExitCode:3": "it failed"}
    assert RunState(folder).alerts == named
