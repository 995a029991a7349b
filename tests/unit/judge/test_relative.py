"""Metrics that are judged relative to another metric of the same run."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ml_metrics.config.yaml import parse_yaml
from ml_metrics.core.model import Bounds, JobStatus, Metric, Outcome, StoredMetric, Verdict
from ml_metrics.judge import Judgement, changes_in, judge_run, quotients, reference_of, replay
from ml_metrics.judge.bounds import TOO_LARGE
from unit.judge.cases import DAY, NOW, TEST, condition, config, judged, point

if TYPE_CHECKING:
    from collections.abc import Sequence

TIME, REFERENCE = "step_time_median", "matmul_reference_median"
PAGE = Path(__file__).parents[3] / "docs" / "conditions.md"
RULES: dict[str, dict[str, Any]] = {
    "level": {"comparison": "less"},
    "sd": condition({"stddevs_from_mean": 4}, "less", min_change={"absolute": 0.01}),
    "MAD of both sides": condition({"mads_from_median": 6}),
    "percent of the best": condition({"percent_difference": 5}, "less", against="best"),
    "fixed": condition({"fixed_value": 1.3}, "less"),
}


def rule(name: str = "level", **rest: Any) -> dict[str, Any]:
    return {**RULES[name], "relative_to": REFERENCE, **rest}


def nights(seed: int = 0, runs: int = 60, loss: float = 1.0, since: int = 60) -> list[tuple[float, float]]:
    """The metric and its reference, on machines of which every third week is a quarter slower."""
    random, found = Random(seed), []
    for night in range(runs):
        slow = random.gauss(1.25 if night // 7 % 3 == 2 else 1.0, 0.03)
        worse = loss if night >= since else 1.0
        found.append((0.8 * slow * worse * random.gauss(1, 0.01), 0.65 * slow * random.gauss(1, 0.005)))
    return found


def rows(values: Sequence[tuple[float | None, float | None]], outcome: str | None = None) -> list[StoredMetric]:
    return [
        point(night, value, outcome, metric=name)
        for night, both in enumerate(values)
        for name, value in zip((TIME, REFERENCE), both, strict=True)
    ]


def on(judgement: Judgement, metric: str = TIME) -> Verdict:
    return next(each for each in judgement.verdicts if each.metric == metric)


def test_the_example_of_the_page() -> None:
    """A slow machine passes, and a loss of 8 % fails in its third run; both metrics were recorded without verdicts."""
    text = PAGE.read_text(encoding="utf-8").split("### Relative to another metric")[1]
    regression = config(parse_yaml(text.split("```yaml\n")[1].split("```")[0], "page")[0]["metric_success_conditions"])
    slow = on(judged(regression, {TIME: 0.8 * 1.6, REFERENCE: 0.65 * 1.6}, rows(nights())))
    assert (slow.outcome, slow.baseline_points) == (Outcome.PASS, 60)
    assert slow.rule == f"no rise that lasts 3 runs, relative to {REFERENCE}"
    plain = on(judged(config({TIME: {"comparison": "less"}}), {TIME: 0.8 * 1.6}, rows(nights())))
    assert plain.outcome is Outcome.FAIL
    lost = nights(runs=63, loss=1.08)
    failed = on(judged(regression, dict(zip((TIME, REFERENCE), lost[-1], strict=True)), rows(lost[:-1])))
    assert failed.outcome is Outcome.FAIL
    assert failed.reason.startswith(f"relative to {REFERENCE}, the level rose from 1.23")
    assert "first in run run-00060" in failed.reason


def test_numbers_of_a_verdict_are_those_of_the_metric_on_the_machine_of_its_run() -> None:
    regression = config({TIME: rule("sd")})
    verdicts = [on(judged(regression, {TIME: 0.8 * slow, REFERENCE: 0.65 * slow}, rows(nights()))) for slow in (1, 2)]
    for one, slow in zip(verdicts, (1, 2), strict=True):
        assert one.value == 0.8 * slow
        assert one.reference == pytest.approx(0.8 * slow, rel=0.01)
        assert one.spread == pytest.approx(0.009 * slow, rel=0.4)
        assert one.bounds is not None
        assert one.bounds.contains(one.value)
        assert one.bounds.lower == -math.inf
    level = on(judged(config({TIME: rule()}), {TIME: 1.6, REFERENCE: 1.3}, rows(nights())))
    assert level.watched is not None
    assert level.watched.floor == pytest.approx(0.02 * 1.6, rel=0.02)
    assert level.watched.floor_is == "2 %"
    assert Judgement.from_document(judged(regression, {TIME: 1.6, REFERENCE: 1.3}).document())


@pytest.mark.parametrize("name", RULES)
@settings(deadline=None, max_examples=15)
@given(
    factors=st.lists(st.floats(0.01, 100), min_size=40, max_size=40),
    seed=st.integers(0, 1_000),
    loss=st.sampled_from([0.9, 1.0, 1.03, 1.1]),
)
def test_a_factor_of_both_metrics_changes_no_verdict(name: str, factors: list[float], seed: int, loss: float) -> None:
    """Up to rounding in the twelfth digit."""
    values = nights(seed, 40, loss, since=30)
    scaled = [(time * by, reference * by) for (time, reference), by in zip(values, factors, strict=True)]
    regression = config({TIME: rule(name)})
    plain, other = (replay(regression, rows(each), test=TEST).runs for each in (values, scaled))
    for one, two, by in zip(plain, other, factors, strict=True):
        was, now = on(one.judgement), on(two.judgement)
        assert (now.outcome, now.reason, now.implausible) == (was.outcome, was.reason, was.implausible)
        assert one.judgement.passed == two.judgement.passed
        assert now.value == pytest.approx((was.value or 0.0) * by)
        assert (now.bounds is None) == (was.bounds is None)
        if was.bounds is not None and now.bounds is not None:
            sides = (was.bounds.lower * by, was.bounds.upper * by)
            assert (now.bounds.lower, now.bounds.upper) == pytest.approx(sides)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (
            {"matmul_referense_median": 0.65},
            f"the run has no metric {REFERENCE!r}, to which it is relative; did you mean",
        ),
        ({}, f"the run has no metric {REFERENCE!r}, to which it is relative"),
        ({REFERENCE: 0.0}, f"it is relative to {REFERENCE}, which is 0 and not a positive number"),
        ({REFERENCE: -0.65}, f"it is relative to {REFERENCE}, which is -0.65 and not a positive number"),
        ({REFERENCE: math.nan}, f"it is relative to {REFERENCE}, which is nan and not a positive number"),
        ({REFERENCE: math.inf}, f"it is relative to {REFERENCE}, which is inf and not a positive number"),
    ],
)
def test_a_run_without_a_usable_reference_fails(given: dict[str, float], reason: str) -> None:
    judgement = judged(config({TIME: rule()}), {TIME: 0.8, **given}, rows(nights()))
    verdict = on(judgement)
    assert (verdict.outcome, verdict.bounds, judgement.passed) == (Outcome.FAIL, None, False)
    assert verdict.reason.startswith(f"the condition could not be applied: {reason}")
    assert [str(alert.kind) for alert in judgement.alerts] == ["not_judged"]


@pytest.mark.parametrize(("allowed", "outcome"), [(0.0, Outcome.FAIL), (0.05, Outcome.PASS)])
def test_points_of_a_reference_that_are_not_finite_count_as_its_condition_says(
    allowed: float, outcome: Outcome
) -> None:
    conditions = {TIME: rule(), REFERENCE: {"comparison": "within", "max_non_finite": allowed}}
    values = {TIME: Metric(TIME, 0.8, "step_time", "median"), REFERENCE: Metric(REFERENCE, 0.65, "matmul", "median")}
    values[REFERENCE] = replace(values[REFERENCE], points=100, non_finite=1)
    judgement = judge_run(
        config(conditions),
        list(values.values()),
        rows(nights()),
        status=JobStatus.SUCCESS,
        run_key="now",
        now=NOW,
        test=TEST,
    )
    assert on(judgement).outcome is outcome


@pytest.mark.parametrize("reference", [None, 0.0, -1.0, math.nan, math.inf])
def test_earlier_runs_without_a_usable_reference_are_not_in_the_baseline(reference: float | None) -> None:
    values = [(time, reference if night < 20 else other) for night, (time, other) in enumerate(nights())]
    assert on(judged(config({TIME: rule()}), {TIME: 0.8, REFERENCE: 0.65}, rows(values))).baseline_points == 40


def test_a_metric_that_is_missing_or_no_number_is_told_as_such() -> None:
    regression = config({TIME: rule(), "other": rule(optional=True)})
    judgement = judged(regression, {REFERENCE: 0.65}, rows(nights()))
    assert [on(judgement, name).outcome for name in (TIME, "other")] == [Outcome.MISSING, Outcome.SKIPPED]
    assert on(judgement).bounds is None
    verdict = on(judged(regression, {REFERENCE: 0.65, TIME: math.nan}, rows(nights())))
    assert (verdict.outcome, verdict.value) == (Outcome.NON_FINITE, None)


def test_a_reference_that_its_pattern_covers_is_judged_by_its_own_values() -> None:
    for key in ("default", "*_median"):
        regression = config({key: rule("fixed")})
        judgement = judged(regression, {TIME: 12.0, REFERENCE: 10.0}, rows(nights()))
        assert on(judgement).outcome is Outcome.PASS
        assert on(judgement, REFERENCE).outcome is Outcome.FAIL
        assert on(judgement, REFERENCE).rule == "less than 1.3"


def test_the_numbers_of_a_condition_are_those_of_the_quotient() -> None:
    verdict = on(judged(config({TIME: rule("fixed")}), {TIME: 14.0, REFERENCE: 10.0}))
    assert (verdict.outcome, verdict.bounds) == (Outcome.FAIL, Bounds(-math.inf, 13.0))
    assert verdict.reason == f"relative to {REFERENCE}, 1.4 is above 1.3"


@pytest.mark.parametrize("name", ["level", "sd", "MAD of both sides", "percent of the best"])
def test_numbers_that_no_metric_can_have_are_told_and_not_left_out(name: str) -> None:
    past = [(2e300 * time, 1e300 * reference) for time, reference in nights()]
    found = on(judged(config({TIME: rule(name)}), {TIME: 1.7e308, REFERENCE: 1e308}, rows(past)))
    assert (found.outcome, found.value, found.bounds) == (Outcome.FAIL, 1.7e308, None)
    assert found.reason == f"the condition could not be applied: {TOO_LARGE}"


def test_a_throughput_keeps_its_direction_and_is_no_ratio() -> None:
    """Quotients from 0 to 1 of which more is better are no accuracies, whose floor is in points."""
    speed = [(0.9 * reference, reference) for _, reference in nights()]
    past = [replace(row, metric=row.metric.replace(TIME, "throughput")) for row in rows(speed)]
    regression = config({"default": {"comparison": "less", "relative_to": REFERENCE}})
    fast, slow = (
        on(judged(regression, {"throughput": value, REFERENCE: 0.65}, past), "throughput") for value in (0.8, 0.3)
    )
    assert fast.bounds is not None
    assert (fast.bounds.upper, fast.watched and fast.watched.floor_is) == (math.inf, "1 %, since its noise is small")
    assert "this one run is far from the level" in slow.reason
    assert slow.value == 0.3


def test_confirmation_counts_stored_verdicts() -> None:
    regression = config({TIME: rule("fixed", confirm={"runs": 2, "by": "next"})})
    past = [*rows(nights()), *(replace(row, timestamp=NOW - DAY) for row in rows([(1.0, 0.65)], "fail"))]
    past = [replace(row, run_key="last") if row.timestamp == NOW - DAY else row for row in past]
    judgement = judged(regression, {TIME: 1.4, REFERENCE: 1.0}, past)
    assert "confirmed by 2 runs" in on(judgement).reason


def test_pages_name_no_change_that_the_machine_may_have_caused() -> None:
    shifted = [
        (time * slow, reference * slow) for (time, reference), slow in zip(nights(), [1] * 30 + [2] * 30, strict=True)
    ]
    regression = config({TIME: rule()})
    own = [row for row in rows(shifted) if row.metric == TIME]
    verdict = on(judged(regression, {TIME: 1.6, REFERENCE: 1.3}, rows(shifted)))
    now = replace(own[-1], value=1.6, rule=verdict.rule, reference=verdict.reference, timestamp=NOW)
    reference = reference_of(now, own)
    assert reference is not None
    assert abs(reference.percent(1.6) or 0.0) < 2
    assert reference.since is None
    assert len(changes_in(own)) > 0
    assert changes_in([*own, now]) == []
    assert changes_in(row for row in quotients(regression, rows(shifted), TEST) if row.metric == TIME) == []
    assert reference_of(replace(now, reference=None), own) is None


def test_a_metric_changes_with_its_quotient() -> None:
    found = quotients(config({TIME: rule()}), rows(nights(runs=90, loss=1.08)), TEST)
    (change,) = changes_in(row for row in found if row.metric == TIME)
    assert (change.run_key, round(change.percent or 0.0)) == ("run-00060", 7)
