"""The problems of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import strategies as st

from ml_metrics.alerts import short_name
from ml_metrics.alerts.problems import Problems, counted, problems_of, worst_first
from ml_metrics.config.conditions import RegressionTestConfig
from ml_metrics.core.model import Bounds, JobStatus, Metric, Outcome, Run, Verdict, Workload
from ml_metrics.judge import judge_run
from ml_metrics.pipeline import RunState
from ml_metrics.store.run_folder import RunFolder
from ml_metrics.warehouse import run_record
from unit.judge.cases import NOW, TEST, condition, history

if TYPE_CHECKING:
    from pathlib import Path

NUMBERS = st.floats(-1e308, 1e308)
BELOW = Bounds(upper=1.0)


def verdict(metric: str, value: float | None, bounds: Bounds | None, spread: float | None = None) -> Verdict:
    return Verdict(metric, Outcome.FAIL, value, bounds, "", spread=spread)


def test_what_is_new_comes_first_then_the_job_then_the_worst() -> None:
    found = {
        "near": verdict("near", 1.1, BELOW),
        "far": verdict("far", 9.0, BELOW),
        "steady": verdict("steady", 1.1, BELOW, spread=0.001),
        "gone": verdict("gone", None, None),
    }
    names = [*(f"out_of_bounds:{name}" for name in ("near", "far", "steady")), "missing:gone", "job_status:"]
    assert worst_first(names, found, {"missing:gone"}) == [
        "job_status:",
        "out_of_bounds:steady",
        "out_of_bounds:far",
        "out_of_bounds:near",
        "missing:gone",
    ]


def test_problems_are_counted_by_kind() -> None:
    names = [f"out_of_bounds:{number}" for number in range(1200)] + ["missing:a", "job_status:"]
    assert counted(names) == ("1,200 out of bounds", "1 missing", "1 of the job")


RULE = condition({"stddevs_from_mean": 4}, "less")


def test_a_value_that_is_implausibly_good_is_a_warning(tmp_path: Path) -> None:
    config = RegressionTestConfig.model_validate({"metric_success_conditions": {"loss": RULE}})
    past = history([100.0 + number % 3 for number in range(20)])
    metrics = [Metric("loss", 0.0, "loss", "final")]
    judgement = judge_run(config, metrics, past, status=JobStatus.SUCCESS, run_key="r", now=NOW, test=TEST)
    folder, workload = RunFolder(str(tmp_path)), Workload(JobStatus.SUCCESS, started_at=NOW, ended_at=NOW)
    folder.write_workload(workload)
    folder.write("verdicts", judgement.document())
    folder.write("gate", {"reasons": [], "troubles": {"implausible:loss": judgement.alerts[0].message}})
    assert problems_of(RunState(folder)) == Problems(warnings={"implausible:loss": judgement.alerts[0].message})
    assert short_name("implausible:loss") == "loss implausibly good"
    record = run_record(Run("t", "t", "r", "d"), workload, metrics, judgement.verdicts, {})
    assert record.job.verdict == "warn"
    assert record.metrics[0].outcome == "pass"
