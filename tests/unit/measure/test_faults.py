"""What a fault cost, by runs whose recovery is known by construction."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ml_metrics.config.collection import MetricCollectionConfig
from ml_metrics.core.faults import FaultJournal, FaultState, PlannedFault, PlannedRestart
from ml_metrics.core.model import JobStatus, Workload
from ml_metrics.measure import collect_run
from ml_metrics.store.run_folder import RunFolder
from unit.measure.collect.test_printed_steps import START as PRINTED_FROM
from unit.measure.collect.test_printed_steps import absl, megatron, torchtitan

START = 1_800_000_000.0
KILL = PlannedFault(0, "step 15", "kill", "kill", "any", step=15, state=FaultState.DONE, attempt=1, hosts=(0,))
SUCCESS = Workload(JobStatus.SUCCESS, ended_at=datetime.fromtimestamp(START + 10_000, UTC))


class Job:
    """Writes what a program writes that loses its process once: a step takes a second."""

    def __init__(self, folder: Path, *, recorder: bool = True, lines: bool = True) -> None:
        self.folder, self.recorder, self.lines, self.now = folder, recorder, lines, START
        folder.mkdir(exist_ok=True)

    def write(self, name: str, **entry: Any) -> None:
        with (self.folder / name).open("a") as file:
            print(json.dumps(entry), file=file)

    def train(self, first: int, last: int, *, worse: float = 0.0, torn: bool = False, goes_on: bool = False) -> None:
        """Steps from the first to the last, of which a torn one does not end."""
        if self.recorder and not goes_on:
            self.write("goodput.jsonl", job_name="j", job_start_time=self.now)
        for step in range(first, last + 1):
            if self.recorder:
                self.write("goodput.jsonl", job_name="j", step_count=step, step_start_time=self.now)
            self.now += 1.0
            if self.lines and not (torn and step == last):
                self.write("train.jsonl", step=step, time=self.now, loss=1.0 + 0.01 * (step % 3) + worse)

    def measured(self, *faults: PlannedFault, ended: float | None = None, workload: Workload = SUCCESS) -> Any:
        restarts = (PlannedRestart(1, ended, "ExitCode:137"),) if ended is not None else ()
        journal = FaultJournal(faults, START, restarts)
        assert FaultJournal.from_document(json.loads(json.dumps(journal.document()))) == journal
        return collect_run(MetricCollectionConfig(), RunFolder(str(self.folder)), workload, faults=journal)


def values(collected: Any) -> dict[str, float]:
    return {
        metric.name: metric.value for metric in collected.metrics if "fault" in metric.name or "recov" in metric.name
    }


@pytest.mark.parametrize("written", [("recorder", "lines"), ("recorder",), ("lines",)])
@settings(max_examples=15, deadline=None)
@given(numbers=st.tuples(st.integers(1, 12), st.integers(2, 600), st.floats(0, 0.9), st.integers(1, 30)))
def test_times_and_steps_are_as_constructed(
    written: tuple[str, ...], numbers: tuple[int, int, float, int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    lost, down, late, rest = numbers
    job = Job(tmp_path_factory.mktemp("job"), recorder="recorder" in written, lines="lines" in written)
    job.train(0, 15, torn=True)  # killed in step 15
    begun = job.now - 1 + late
    job.now = begun + down
    job.train(15 - lost, 15 + rest)
    found = values(job.measured(replace(KILL, begun_at=begun, done_at=begun, due_at=begun), ended=float(int(begun))))
    assert found["recovery_seconds"] == pytest.approx(down + lost + 1, abs=1e-3)
    assert (found["fault_steps_lost"], found["faults_survived"]) == (lost, 1)
    assert found["fault_recomputed_seconds"] == pytest.approx(lost, abs=1e-3)
    assert found["fault_goodput_lost_seconds"] == pytest.approx(down + late + lost, abs=1e-3)
    assert found.get("fault_restart_seconds", down) == pytest.approx(down, abs=1e-3)
    assert found.get("fault_loss_jumps", 0) == 0


@pytest.mark.parametrize("ahead", [0.1, 60.0])
def test_a_freeze_costs_as_long_as_it_lasts(ahead: float, tmp_path: Path) -> None:
    """Whatever the clock of Airflow's machine, by which it was done, is ahead of that of the pod."""
    job = Job(tmp_path / "j")
    job.train(0, 9, torn=True)
    frozen = replace(KILL, what="freeze(30s)", kind="freeze", lasts=30.0, begun_at=job.now - 0.5)
    frozen = replace(frozen, done_at=job.now - 0.5 + ahead)
    job.now += 30
    job.write("train.jsonl", step=9, time=job.now, loss=1.0)
    job.train(10, 20, goes_on=True)
    found = values(job.measured(frozen))
    assert found["recovery_seconds"] == pytest.approx(30.5)
    assert found["fault_goodput_lost_seconds"] == pytest.approx(30)
    assert (found["fault_steps_lost"], found["fault_recomputed_seconds"]) == (0, 0.0)
    assert "fault_notice_seconds" not in found


def test_a_slow_host_costs_what_its_steps_take_longer(tmp_path: Path) -> None:
    job = Job(tmp_path / "j", lines=False)
    job.train(0, 9)
    slow = replace(KILL, what="slow(3x, 30s)", kind="slow", lasts=30.0, begun_at=job.now, done_at=job.now)
    for step in range(10, 20):
        job.write("goodput.jsonl", job_name="j", step_count=step, step_start_time=job.now)
        job.now += 3
    job.train(20, 40, goes_on=True)
    found = values(job.measured(slow))
    assert found["recovery_seconds"] == pytest.approx(30)
    assert found["fault_goodput_lost_seconds"] == pytest.approx(20)
    assert (found["faults_survived"], found["fault_steps_lost"]) == (1, 0)


def test_a_freeze_before_a_kill_of_the_same_attempt_has_its_own_recovery(tmp_path: Path) -> None:
    job = Job(tmp_path / "j")
    job.train(0, 9, torn=True)
    frozen = replace(KILL, what="freeze(3s)", kind="freeze", lasts=3.0, begun_at=job.now - 0.5, done_at=job.now - 0.4)
    job.now += 3
    job.write("train.jsonl", step=9, time=job.now, loss=1.0)
    job.train(10, 20, goes_on=True, torn=True)
    killed = replace(KILL, number=1, begun_at=job.now - 0.5, done_at=job.now - 0.5)
    job.now += 5
    job.train(15, 30)
    freeze, kill = job.measured(frozen, killed, ended=killed.begun_at).faults
    assert [freeze[name] for name in ("recovered", "steps_lost", "noticed")] == [pytest.approx(3.5), 0, None]
    assert [kill[name] for name in ("recovered", "steps_lost", "noticed")] == [pytest.approx(5.5 + 6), 5, 0.0]


def test_what_a_program_does_before_it_ends_is_no_recovery(tmp_path: Path) -> None:
    job = Job(tmp_path / "j")
    job.train(0, 15)
    begun = job.now
    job.train(16, 19, goes_on=True)  # it was told to terminate, and goes on for a while
    ended = job.now
    job.now += 5
    job.train(10, 30)
    found = values(job.measured(replace(KILL, kind="terminate", begun_at=begun, done_at=begun), ended=ended))
    assert found["recovery_seconds"] == pytest.approx(4 + 5 + 11, abs=1.01)


@pytest.mark.parametrize(
    ("first", "worse", "jumps"), [(10, 0.0, 0), (10, 0.5, 1), (16, 0.0, 0), (16, 0.5, 1), (10, -0.5, 0)]
)
@pytest.mark.parametrize("more", [0, 9])
@pytest.mark.parametrize("recorder", [True, False])
def test_a_loss_that_does_not_go_on_where_it_was_is_found(
    first: int, worse: float, jumps: int, more: int, recorder: bool, tmp_path: Path
) -> None:
    """A program may compute more steps after SIGTERM."""
    job = Job(tmp_path / "j", recorder=recorder)
    job.train(0, 15)
    begun = job.now
    if more:
        job.train(16, 15 + more, goes_on=True)
    ended = job.now
    job.now += 5
    job.train(first + more, 50, worse=worse)
    found = job.measured(replace(KILL, begun_at=begun, done_at=begun), ended=ended)
    assert values(found)["fault_loss_jumps"] == jumps
    assert any("restored wrongly" in warning for warning in found.warnings) == bool(jumps)


def test_a_recovery_that_is_not_known_is_missing_with_the_reason(tmp_path: Path) -> None:
    job = Job(tmp_path / "j")
    job.train(0, 15)
    begun = job.now
    failed = Workload(JobStatus.FAILURE, ended_at=SUCCESS.ended_at)
    found = job.measured(replace(KILL, begun_at=begun, done_at=begun), ended=begun, workload=failed)
    assert found.missing["recovery_seconds"] == (
        "kill (step 15): the run did not get beyond step 16, which it had reached before"
    )
    assert values(found)["faults_survived"] == 0
    job.now += 1
    job.train(10, 17)
    later = replace(KILL, number=1, at="step 99", state=FaultState.PLANNED)
    found = job.measured(replace(KILL, begun_at=begun, done_at=begun), later, ended=begun)
    assert found.missing["recovery_seconds"] == "kill (step 99): the fault was not inflicted: the run ended at step 18"
    assert (values(found)["faults_planned"], values(found)["faults_survived"]) == (2, 1)
    empty = Job(tmp_path / "empty").measured(replace(KILL, begun_at=begun, done_at=begun))
    assert "no step of the run is known" in empty.missing["recovery_seconds"]


def torchtitan_of(at: float, step: int, seconds: float) -> str:
    return torchtitan(at, step, 4096 / seconds)


@pytest.mark.parametrize(
    ("profile", "line"), [("maxtext", absl), ("megatron", megatron), ("torchtitan", torchtitan_of)]
)
@pytest.mark.parametrize("worse", [0.0, 9.0])
def test_a_log_of_a_known_program_tells_as_much_as_the_recorder(
    profile: str, line: Any, worse: float, tmp_path: Path
) -> None:
    """A process is killed in step 21, starts again 40 s later, restores for 5 s, and goes on after step 12."""
    text, restored = "", 20 * 2.0 + 1.2 + 40 + 5
    for first, last, begins, added in ((1, 20, 0.0, 0.0), (13, 40, restored, worse)):
        for number in range(first, last + 1):
            printed = line(begins + 2.0 * (number - first + 1), number, 2.0)
            loss = 2.0 + 0.01 * (number % 3) + added
            text += re.sub(r"(loss:\s+)\S+", lambda found, loss=loss: f"{found[1]}{loss:.5f}", printed)
    (tmp_path / "train.log").write_text(text)
    begun = PRINTED_FROM.timestamp() + 41.2
    start = datetime.fromtimestamp(begun + 40, UTC)
    workload = replace(
        SUCCESS,
        started_at=start,
        ended_at=datetime.fromtimestamp(begun + 200, UTC),
        earlier=((PRINTED_FROM, datetime.fromtimestamp(begun, UTC)),),
    )
    journal = FaultJournal(
        (replace(KILL, begun_at=begun, done_at=begun),), begun - 41, (PlannedRestart(1, begun, "ExitCode:137"),)
    )
    sources = {"logs": {"files": ["*.log"], "profile": profile}}
    config = MetricCollectionConfig.model_validate({"sources": sources})
    found = collect_run(config, RunFolder(str(tmp_path)), workload, faults=journal)
    measured = values(found)
    assert measured["recovery_seconds"] == pytest.approx(45 + 9 * 2, abs=1), found.missing
    assert (measured["fault_steps_lost"], measured["fault_loss_jumps"]) == (8, 1 if worse else 0)
    assert measured["fault_restart_seconds"] == pytest.approx(40, abs=1)


def test_a_log_without_times_says_what_is_missing(tmp_path: Path) -> None:
    line = (
        "Training epoch 0, iteration {0}/99 | global_step: {0} | reduced_train_loss: 1.2 | train_step_timing in s: 2\n"
    )
    (tmp_path / "train.log").write_text("".join(map(line.format, range(30))))
    config = MetricCollectionConfig.model_validate({"sources": {"logs": {"files": ["*.log"], "profile": "nemo"}}})
    journal = FaultJournal((replace(KILL, begun_at=START, done_at=START),), START)
    found = collect_run(config, RunFolder(str(tmp_path)), replace(SUCCESS, started_at=SUCCESS.ended_at), faults=journal)
    assert "a log with times whose `sources.logs.profile` is stated" in found.missing["recovery_seconds"]
