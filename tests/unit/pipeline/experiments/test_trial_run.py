"""What a trial shows once it has ended."""

from __future__ import annotations

from pathlib import Path

import pytest

from ml_metrics import ConfigError
from ml_metrics.core.errors import UnreadableInputError
from ml_metrics.core.model import JobStatus, Run, Workload
from ml_metrics.judge import State
from ml_metrics.pipeline import RunState
from ml_metrics.pipeline.experiments import TrialRun, experiment_of, run_id_of, trial_run
from ml_metrics.store.run_folder import RunFolder

KEY = Run("ml-metrics-compare", "ml-metrics-compare", "by_hand", "local").key


def state(tmp_path: Path, workload: Workload | None, *, trial: bool = True, value: float | None = 2.5) -> RunState:
    folder = RunFolder.of(Run("t", "t", run_id_of(KEY, 0), "local"), str(tmp_path))
    if workload:
        folder.write("run", {"trial": ["image"] if trial else [], "params": {}})
        folder.write_workload(workload)
        folder.write(
            "metrics",
            {
                "metrics": [{"name": "loss", "tag": "loss", "strategy": "final", "value": value, "points": 1}],
                "warnings": [],
                "files": 1,
            },
        )
    return RunState(folder)


def test_a_run_that_went_well_has_values_and_a_host(tmp_path: Path) -> None:
    found = trial_run("app:1", state(tmp_path, Workload(JobStatus.SUCCESS, node="node-a")))
    assert found == TrialRun("app:1", State.MEASURED, {"loss": 2.5}, "node-a")
    assert TrialRun.from_document(found.document()) == found


@pytest.mark.parametrize(
    ("workload", "expected", "reason"),
    [
        (None, State.BROKEN, "the workload was not started"),
        (Workload(JobStatus.FAILURE, "OOMKilled"), State.BROKEN, "OOMKilled"),
        (Workload(JobStatus.TIMEOUT), State.BROKEN, "timeout"),
        (Workload(JobStatus.FAILURE, "ExitCode:125"), State.UNTESTABLE, "ExitCode:125"),
        (Workload(JobStatus.FAILURE, "InvalidImageName"), State.UNTESTABLE, "InvalidImageName"),
    ],
)
def test_builds_that_fail_and_runs_that_break_are_apart(
    tmp_path: Path, workload: Workload | None, expected: State, reason: str
) -> None:
    found = trial_run("app:1", state(tmp_path, workload))
    assert (found.state, found.reason, found.values) == (expected, reason, {})


def test_a_run_without_a_finite_value_is_broken(tmp_path: Path) -> None:
    found = trial_run("app:1", state(tmp_path, Workload(JobStatus.SUCCESS), value=float("nan")))
    assert (found.state, found.reason) == (State.BROKEN, "no metric")


def test_a_run_that_is_no_trial_ends_the_experiment(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is no trial"):
        trial_run("app:1", state(tmp_path, Workload(JobStatus.SUCCESS), trial=False))


def test_the_id_of_a_trial_names_its_experiment() -> None:
    assert experiment_of(run_id_of(KEY, 17)) == KEY
    assert experiment_of("manual__2026-01-01") is None


def test_a_trial_that_cannot_be_read() -> None:
    with pytest.raises(UnreadableInputError, match="trial cannot be read"):
        TrialRun.from_document({"version": "app:1", "state": "lost", "values": {}})
