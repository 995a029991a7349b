from __future__ import annotations

import json
import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from ml_metrics.alerts.metric import MetricHistory, change_of, metric_facts, metric_words, picture_of
from ml_metrics.config.conditions import RegressionTestConfig
from ml_metrics.core.model import Bounds, JobStatus, Metric, Outcome, Run, StoredMetric, Verdict, Workload
from ml_metrics.judge import Judgement, judge_run
from ml_metrics.warehouse import open_warehouse, run_record

if TYPE_CHECKING:
    from pathlib import Path

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
BAD = Verdict(
    "loss", Outcome.FAIL, 2.0, Bounds(-math.inf, 1.5), "less than mean + 3 sd", 3, "2 is above 1.5",
    reference=1.0, spread=0.2,
)  # fmt: skip


def value(
    day: int,
    number: float | None,
    outcome: Outcome | None = Outcome.PASS,
    status: JobStatus = JobStatus.SUCCESS,
) -> StoredMetric:
    moment = NOON + timedelta(days=day)
    return StoredMetric(f"run {day}", moment, "loss", number, status, outcome, upper=1.5, rule="rule", step=1)


def facts(verdict: Verdict, *values: StoredMetric) -> dict[str, str]:
    return {fact.name: fact.value for fact in metric_facts(verdict, MetricHistory(values))}


def test_the_baseline_of_a_metric_is_the_one_of_its_verdict() -> None:
    found = facts(BAD, value(1, 100.0), value(2, 1.0), value(3, 1.0), value(4, 1.0))
    assert found == {
        "baseline": "1 ± 0.2, from 3 runs",
        "rule": "less than mean + 3 sd",
        "last runs": "100 · 1 · 1 · 1",
    }


def test_the_last_runs_include_those_that_failed() -> None:
    failed = value(3, 9.0, Outcome.SKIPPED, JobStatus.FAILURE)
    found = facts(BAD, value(1, 1.0), value(2, 9.0, Outcome.FAIL), failed, value(4, None))
    assert found["last runs"] == "1 · 9 · 9 · -"


def test_a_change_from_a_baseline_of_zero_has_no_percentage() -> None:
    assert change_of(BAD) == "100 % worse than the baseline"
    assert change_of(replace(BAD, reference=0.0)) == ""


def test_a_metric_without_history_or_value_has_the_facts_that_there_are() -> None:
    missing = Verdict("loss", Outcome.MISSING, None, None, "", 0, "the run did not produce it")
    assert facts(missing) == {}
    assert set(facts(missing, value(1, 1.0))) == {"last runs"}
    assert list(metric_facts(replace(BAD, reference=None, spread=None), None)) == []


def test_judge_document_warehouse_and_mail_have_one_baseline(tmp_path: Path) -> None:
    """The metric is compared with another test: an average of its own history would be another baseline."""
    condition = {
        "comparison": "less",
        "success_threshold": {"percent_difference": 10},
        "compare_to": "base",
    }
    config = RegressionTestConfig.model_validate({"metric_success_conditions": {"loss": condition}})
    run = Run("candidate", "candidate", "scheduled__1", "local")
    history = [
        StoredMetric(f"{test}-{day}", NOON + timedelta(days=day), "loss", level, JobStatus.SUCCESS, None, test)
        for test, level in (("base", 1.0), ("candidate", 1.05))
        for day in range(4)
    ]
    ended = NOON + timedelta(days=5)
    metrics = [Metric("loss", 5.0, "loss", "final")]
    judgement = judge_run(config, metrics, history, status=JobStatus.SUCCESS, run_key=run.key, now=ended, test=run.test)
    stored = Judgement.from_document(json.loads(json.dumps(judgement.document())))
    assert stored == judgement
    (verdict,) = stored.verdicts
    assert (verdict.reference, verdict.spread) == (1.0, None)
    workload = Workload(JobStatus.SUCCESS, started_at=NOON, ended_at=ended)
    record = run_record(run, workload, metrics, stored.verdicts, {})
    with open_warehouse(f"sqlite:///{tmp_path}/warehouse.db") as warehouse:
        warehouse.load(record)
        (row,) = warehouse.metrics.of_run(run.key)
    assert (row.reference, row.spread, row.baseline_points) == (1.0, None, 4)
    found = facts(verdict, value(1, 1.05), value(2, 1.05))
    assert found["baseline"] == "1, from 4 runs"
    assert metric_words("out_of_bounds:loss", verdict)[1] == (
        "loss 5, must be below 1.1 (400 % worse than the baseline)"
    )


@pytest.mark.parametrize("number", [2.0, None, 1e300, -1e300, 5e-324])
def test_a_metric_has_a_picture_of_its_runs(number: float | None) -> None:
    past = MetricHistory(tuple(value(day, number, Outcome.PASS if day % 2 else None) for day in range(50)))
    picture = picture_of(1, value(60, 2.0, Outcome.FAIL), past)
    assert picture is not None
    assert picture.png.startswith(b"\x89PNG")
    assert (picture.name, picture.alt) == ("metric-1", "loss in its last 31 runs, with its bounds")


def test_a_picture_that_cannot_be_drawn_is_omitted(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("ml_metrics.alerts.charts.frame.as_png", lambda _: 1 / 0)
    assert picture_of(1, value(2, 2.0), MetricHistory((value(1, 1.0),))) is None
    assert "could not be drawn" in caplog.text
