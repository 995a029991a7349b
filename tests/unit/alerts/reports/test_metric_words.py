from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ml_metrics.alerts.metric import (
    MetricHistory,
    further_reasons,
    metric_facts,
    metric_words,
    picture_of,
    value_and_requirement,
)
from ml_metrics.config.conditions import RegressionTestConfig
from ml_metrics.core.model import Bounds, JobStatus, Metric, Outcome, Run, StoredMetric, Verdict, Workload
from ml_metrics.judge import Judgement, judge_run, violation
from ml_metrics.warehouse import open_warehouse, run_record

if TYPE_CHECKING:
    from pathlib import Path

NUMBERS = st.floats(-1e308, 1e308)
BELOW = Bounds(upper=0.05)


def verdict(value: float | None, bounds: Bounds | None, reason: str = "", **more: float) -> Verdict:
    return Verdict("loss_final", Outcome.FAIL, value, bounds, "rule", 12, reason, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("bounds", "required"),
    [
        (Bounds(upper=0.05), "below 0.05"),
        (Bounds(lower=3), "above 3"),
        (Bounds(1, 2), "between 1 and 2"),
        (Bounds(1, 2, inclusive=True), "from 1 to 2"),
        (Bounds(upper=2, inclusive=True), "at most 2"),
        (Bounds(lower=2, inclusive=True), "at least 2"),
        (Bounds(3, 3, inclusive=True), "3"),
        (Bounds(), "a finite number"),
    ],
)
def test_bounds_are_words(bounds: Bounds, required: str) -> None:
    assert value_and_requirement(9.0, bounds) == ("9", required)


@given(NUMBERS, st.none() | NUMBERS, st.none() | NUMBERS, st.none() | NUMBERS, st.sampled_from(["", "s", "B", "%"]))
def test_every_number_has_a_headline(
    value: float, lower: float | None, upper: float | None, reference: float | None, unit: str
) -> None:
    bounds = Bounds(-math.inf if lower is None else lower, math.inf if upper is None else upper)
    found = Verdict(
        "m", Outcome.FAIL, value, bounds, "", 1, violation(value, bounds, unit), reference=reference, unit=unit
    )
    short, headline = metric_words("out_of_bounds:m", found)
    assert len(short) <= len(headline)
    assert not re.search("inf|nan", short + headline)
    assert further_reasons(found) == ""


@pytest.mark.parametrize(
    ("value", "reference", "bounds", "change"),
    [
        (0.9, 0.97, Bounds(lower=0.96), ("m -7.22 % to 0.9", " (-7.22 % against the baseline)")),
        (0.9, -1.0, Bounds(upper=-0.5), ("m +190 % to 0.9", " (+190 % against the baseline)")),
        (2.0, 1.0, Bounds(0.9, 1.1), ("m +100 % to 2", " (+100 % against the baseline)")),
        (0.5, 1.0, Bounds(0.9, 1.1), ("m -50 % to 0.5", " (-50 % against the baseline)")),
        (50.0, 1.0, Bounds(upper=2), ("m 50, 50 times the baseline", " (50 times the baseline)")),
        (1.0, 2.0, Bounds(upper=0.5), ("m 1, must be below 0.5", "")),  # it is better than the baseline
        (1.0, 0.0, Bounds(upper=0.5), ("m 1, must be below 0.5", "")),
        (1e308, 1e-308, Bounds(upper=1), ("m 1e+308, must be below 1", "")),
    ],
)
def test_the_change_is_stated_where_it_says_something(
    value: float, reference: float, bounds: Bounds, change: tuple[str, str]
) -> None:
    found = replace(verdict(value, bounds, reference=reference), metric="m")
    short, sentence = metric_words("out_of_bounds:m", found)
    assert (short, sentence.partition(" (")[1] + sentence.partition(" (")[2]) == change
    long = metric_words("out_of_bounds:x", replace(found, metric="layer/" * 50 + "m"))[0]
    assert long.startswith("layer/")
    assert "/m " in long, "names of a family differ in their last letters"
    assert len(long) <= 40 + len(short)


def test_what_the_headline_states_is_not_repeated() -> None:
    violated = violation(2.08, BELOW)
    certain = "very unlikely to be noise: fewer than 1 in 1,000 healthy runs look like this"
    assert further_reasons(
        verdict(2.08, BELOW, f"{violated} (mean 1, sd 2; without 1 implausible value); {certain}")
    ) == (f"without 1 implausible value; {certain}")
    assert further_reasons(verdict(2.08, BELOW, f"{violated}; confirmed by 2 runs")) == "confirmed by 2 runs"
    assert further_reasons(verdict(2.08, None, "too few runs; 2 of 3")) == "", "without a bound, no further reason"


@pytest.mark.parametrize(
    ("problem", "short"),
    [
        ("missing:loss_final", "loss_final is missing"),
        ("non_finite:loss_final", "loss_final is not a finite number"),
        ("not_judged:loss_final", "loss_final was not judged"),
        ("change_point:loss_final", "loss_final +100 % to 2"),
    ],
)
def test_other_problems_are_named(problem: str, short: str) -> None:
    reason = "the level rose from 1 to 2 (+100 %), first in run abc of 2026-01-02 03:05"
    found, headline = metric_words(problem, verdict(None, None, reason))
    assert found == short
    assert reason in headline


NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
BAD = Verdict(
    "loss", Outcome.FAIL, 2.0, Bounds(-math.inf, 1.5), "less than mean + 3 sd", 3, "2 is above 1.5",
    reference=1.0, spread=0.2,
)  # fmt: skip


def value(
    day: int, number: float | None, outcome: Outcome | None = Outcome.PASS, status: JobStatus = JobStatus.SUCCESS
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


def test_a_metric_without_history_or_value_has_the_facts_that_there_are() -> None:
    missing = Verdict("loss", Outcome.MISSING, None, None, "", 0, "the run did not produce it")
    assert facts(missing) == {}
    assert set(facts(missing, value(1, 1.0))) == {"last runs"}
    assert list(metric_facts(replace(BAD, reference=None, spread=None), None)) == []


def test_judge_document_warehouse_and_mail_have_one_baseline(tmp_path: Path) -> None:
    """The metric is compared with another test: an average of its own history would be another baseline."""
    condition = {"comparison": "less", "success_threshold": {"percent_difference": 10}, "compare_to": "base"}
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
    assert metric_words("out_of_bounds:loss", verdict)[1] == ("loss 5, must be below 1.1 (+400 % against the baseline)")


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
