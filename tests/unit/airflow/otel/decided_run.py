"""A run that is decided, as its documents state it: one restart, a save, a restore, and a broken condition."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from ml_metrics import TestDefinition
from ml_metrics.core.model import JobStatus, Metric, Outcome, Run, Verdict, Workload
from ml_metrics.judge import Judgement
from ml_metrics.measure import Collected
from ml_metrics.measure.goodput import GoodputReport
from ml_metrics.measure.goodput.report import Interval
from ml_metrics.pipeline import RunState
from ml_metrics.store.run_folder import RunFolder

TEST = TestDefinition(name="maxtext", image="i", command=("c",))
RUN = Run("maxtext", "maxtext", "scheduled__2026", "prod")
BEGAN = datetime(2026, 1, 2, 3, 0, tzinfo=UTC)
EPOCH = BEGAN.timestamp()


def after(seconds: float) -> datetime:
    return BEGAN + timedelta(seconds=seconds)


WORKLOAD = Workload(
    JobStatus.SUCCESS,
    queued_at=after(100),
    scheduled_at=after(110),
    started_at=after(130),
    ended_at=after(200),
    attempts=2,
    namespace="ns",
    pod="maxtext-2",
    node="n1",
    image="repo/maxtext:1",
    image_digest=f"repo/maxtext@sha256:{'a' * 64}",
    earlier=((after(10), after(90)),),
)
INTERVALS = (
    Interval(EPOCH + 15, EPOCH + 40, "tpu_initialization"),
    Interval(EPOCH + 40, EPOCH + 80, "productive"),
    Interval(EPOCH + 80, EPOCH + 131, "infrastructure_recovery_from_disruption"),
    Interval(EPOCH + 131, EPOCH + 140, "unproductive_checkpoint_restore_time"),
    Interval(EPOCH + 140, EPOCH + 180, "productive"),
    Interval(EPOCH + 180, EPOCH + 190, "unproductive_checkpoint_save_time"),
    Interval(EPOCH + 190, EPOCH + 200, "custom:eval\nof a hostile workload"),
)


def decided_run(path: Path, *, passed: bool = False, trial: bool = False, workload: Workload = WORKLOAD) -> RunState:
    """Return the documents of the run."""
    folder = RunFolder(str(path))
    report = GoodputReport(
        found=True,
        start=EPOCH + 15,
        end=EPOCH + 200,
        productive_seconds=80,
        badput_seconds={"tpu_initialization": 25.0},
        intervals=INTERVALS,
    )
    folder.write("run", {"test_file": TEST.model_dump(mode="json"), "trial": ["image"] if trial else []})
    folder.write_workload(workload)
    folder.write("goodput", {**report.document(), **Collected(report.metrics()).document()})
    folder.write("efficiency", Collected((Metric("cost_usd", 12.5, "cost_usd", "efficiency"),)).document())
    outcome = Outcome.PASS if passed else Outcome.FAIL
    verdicts = (
        Verdict("loss", outcome, 0.7, None, "less than 0.5", reason="0.7 is too much"),
        Verdict("mfu", Outcome.PASS, 50, None, "greater than 40"),
    )
    folder.write("verdicts", Judgement(verdicts, (), passed).document())
    folder.write("gate", {"reasons": [] if passed else ["loss: 0.7 is too much"], "troubles": {}})
    return RunState(folder)
