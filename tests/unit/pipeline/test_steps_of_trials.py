"""The steps of a trial: its rows are marked, and it sets nothing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from ml_metrics import TestDefinition
from ml_metrics.config.definition import Quarantine
from ml_metrics.core.model import JobStatus, Metric, Run, Workload
from ml_metrics.measure import Collected
from ml_metrics.pipeline import RunState, steps
from ml_metrics.store.run_folder import RunFolder
from ml_metrics.warehouse import open_warehouse

NOW = datetime.now(UTC)
FLAKY = Quarantine(until=NOW.date() + timedelta(days=1), reason="flaky")
CONDITIONS = {"loss": {"comparison": "less", "success_threshold": {"stddevs_from_mean": 3}}}
TEST = TestDefinition(
    name="t", image="i", command=("c",), regression_test_config={"metric_success_conditions": CONDITIONS}
)
RUN = Run("t", "t", "r", "tests")


def state_of(place: Path, loss: float, trial: list[str] | None, ended_at: datetime = NOW) -> RunState:
    folder = RunFolder(str(place))
    given = {"params": {"size": 20, "notify": "a@example.com", "trial": None}}
    folder.write("run", {**given, **({} if trial is None else {"trial": trial, "started_by": "alice"})})
    folder.write_workload(Workload(JobStatus.SUCCESS, started_at=ended_at, ended_at=ended_at))
    folder.write("metrics", Collected((Metric("loss", loss, "loss", "final"),)).document())
    return RunState(folder)


def test_a_trial_is_recorded_with_what_was_changed_and_by_whom(tmp_path: Path) -> None:
    with open_warehouse(f"sqlite:///{tmp_path}/w.db", deployment=RUN.deployment) as warehouse:
        record = steps.load(TEST, RUN, state_of(tmp_path / "run", 0.3, ["image", "size"]), warehouse)
        assert (record.job.trial, record.job.started_by) == ("image, size", "alice")
        assert warehouse.runs.get(RUN.key) == record.job
        assert [row.trial for row in warehouse.metrics.of_run(RUN.key)] == ["image, size"]
        assert warehouse.runs.metadata(RUN.key) == {"param.size": "20"}, "addresses are no attribute of a run"


def test_a_trial_sets_no_quarantine(tmp_path: Path) -> None:
    test = TEST.model_copy(update={"quarantine": FLAKY})
    with open_warehouse(f"sqlite:///{tmp_path}/w.db", deployment=RUN.deployment) as warehouse:
        steps.load(test, RUN, state_of(tmp_path / "run", 0.3, ["image"]), warehouse)
        assert warehouse.quarantines.newest() == {}


def test_a_trial_is_judged_by_the_regular_runs_and_no_later_run_by_it(tmp_path: Path) -> None:
    """Of two further runs with a far value, the trial leaves no trace in the baseline of the regular one."""
    with open_warehouse(f"sqlite:///{tmp_path}/w.db", deployment=RUN.deployment) as warehouse:

        def judged(number: int, loss: float, trial: list[str]) -> tuple[bool, int, float | None]:
            run = Run("t", "t", f"r{number:03}", "tests")
            state = state_of(tmp_path / str(number), loss, trial, NOW + timedelta(hours=number))
            (verdict,) = steps.judge(TEST, run, state, warehouse).verdicts
            steps.load(TEST, run, RunState(state.folder), warehouse)
            return verdict.broken, verdict.baseline_points, verdict.reference

        for number in range(20):
            judged(number, 0.3 + 0.001 * (number % 3), [])
        broken, points, reference = judged(20, 0.9, ["image"])
        assert broken
        assert judged(21, 0.3, []) == (False, points, reference)
        assert judged(22, 0.3, ["image"])[0] is False
