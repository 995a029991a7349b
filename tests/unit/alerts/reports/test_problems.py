"""The problems of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ml_metrics.alerts import short_name
from ml_metrics.alerts.problems import Problems, problems_of
from ml_metrics.config.conditions import RegressionTestConfig
from ml_metrics.core.model import JobStatus, Metric, Run, Workload
from ml_metrics.judge import judge_run
from ml_metrics.pipeline import RunState
from ml_metrics.store.run_folder import RunFolder
from ml_metrics.warehouse import run_record
from unit.judge.cases import NOW, TEST, condition, history

if TYPE_CHECKING:
    from pathlib import Path

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
