"""Properties that hold for every history."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from ml_metrics.config.conditions import Condition
from ml_metrics.core.model import JobStatus, Outcome, StoredMetric
from ml_metrics.judge import Judgement, history_needs, replay
from unit.judge.cases import DAY, NOW, START, TEST, condition, config, history, judged, point

NO_DEADLINE = settings(deadline=None)  # a slow machine must not fail the test
VALUES = st.one_of(
    st.floats(-1e6, 1e6),
    st.integers(-3, 3).map(float),
    st.sampled_from([math.nan, math.inf, -math.inf, None, 0.1, 5.0]),
)
WIDE = VALUES | st.floats() | st.sampled_from([1.7e308, -1.7e308, 1e-308, 5e-324])
"""The full range of floats. Scaling needs some distance from its ends."""
FINITE = st.floats(-1e6, 1e6) | st.floats(allow_nan=False, allow_infinity=False)
LARGE_NOISE = [point(day, 5e307 * (day % 2), outcome=None) for day in range(20)]
"""A loss that is found within three runs would be beyond the range of numbers."""
OUTCOMES = st.sampled_from([None, *Outcome])
STATUSES = st.sampled_from(["success", "success", "success", "failure", "timeout"])
THRESHOLDS = st.one_of(
    st.floats(0, 6).map(lambda times: {"stddevs_from_mean": times}),
    st.floats(0, 6).map(lambda times: {"mads_from_median": times}),
    st.floats(0, 80).map(lambda percent: {"percent_difference": percent}),
    st.just({"change_point": {"min_runs": 2}}),
)
COMPARISONS = st.sampled_from(["less", "less_or_equal", "greater", "greater_or_equal", "within"])


@st.composite
def histories(draw: st.DrawFn, days: int = 40, values: st.SearchStrategy[float | None] = WIDE) -> list[StoredMetric]:
    return [
        point(
            draw(st.integers(0, days)),
            value,
            draw(OUTCOMES),
            status=draw(STATUSES),
            run=draw(st.sampled_from("abcdefgh")) + str(index),
        )
        for index, value in enumerate(draw(st.lists(values, max_size=25)))
    ]


@st.composite
def rules(draw: st.DrawFn) -> dict[str, Any]:
    threshold, comparison = draw(THRESHOLDS), draw(COMPARISONS)
    rest: dict[str, Any] = {}
    if draw(st.booleans()):
        fewest = Condition.model_validate(condition(threshold, comparison)).fewest_runs
        rest["window"] = draw(st.integers(fewest, fewest + 11))
    if draw(st.booleans()):
        rest["time_window"] = f"{draw(st.integers(1, 30))}d"
    if draw(st.booleans()):
        rest["since"] = (START + draw(st.integers(0, 30)) * DAY).isoformat()
    if draw(st.booleans()):
        rest["min_change"] = {"percent": draw(st.floats(0, 50))}
    if comparison != "within" and "change_point" not in threshold and draw(st.booleans()):
        rest["against"] = "best"
    return condition(threshold, comparison, **rest)


def judgement_of(rule: dict[str, Any], value: float, past: list[StoredMetric], **rest: Any) -> Judgement:
    return judged(config({"loss": rule}, alert_after_second_test_failure=True), {"loss": value}, past, **rest)


@NO_DEADLINE
@given(rules(), FINITE, histories(), st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(
    rule: dict[str, Any], value: float, past: list[StoredMetric], shuffler: random.Random
) -> None:
    mixed = list(past)
    shuffler.shuffle(mixed)
    assert judgement_of(rule, value, past) == judgement_of(rule, value, mixed)


@NO_DEADLINE
@given(rules(), FINITE, histories(), WIDE, OUTCOMES)
def test_the_run_itself_and_later_runs_do_not_move_bounds(
    rule: dict[str, Any], value: float, past: list[StoredMetric], other: float | None, outcome: Outcome | None
) -> None:
    at = START + 41 * DAY
    itself = point(20, other, outcome, run="this-run")
    later = point(41.5, other, outcome, run="later")
    assert judgement_of(rule, value, [*past, itself, later], now=at) == judgement_of(rule, value, past, now=at)


@NO_DEADLINE
@given(
    st.sampled_from(["less", "greater_or_equal", "equal"]),
    st.integers(-8, 8),
    st.integers(-8, 8),
    st.integers(0, 4),
    st.integers(-30, 30),
)
def test_scaling_a_metric_with_its_thresholds_does_not_change_verdicts(
    comparison: str, bound: int, value: int, least: int, power: int
) -> None:
    def outcomes(factor: float) -> list[Outcome]:
        change = {"min_change": {"absolute": least * factor}}
        between = {"lower": (bound - 2) * factor, "upper": bound * factor}
        thresholds = [
            condition({"fixed_value": bound * factor}, comparison, **change),
            condition({"within_bounds": between}, **change),
            condition({"percent_difference": {"percent": 25, "value": bound * factor}}, "within", **change),
        ]
        return [judgement_of(rule, value * factor, []).verdicts[0].outcome for rule in thresholds]

    assert outcomes(1.0) == outcomes(2.0**power)


@NO_DEADLINE
@given(
    rules(),
    st.lists(st.one_of(FINITE, st.sampled_from([1.0, 2.0])), min_size=1, max_size=20),
    FINITE,
)
def test_a_later_run_does_not_change_earlier_verdicts(rule: dict[str, Any], values: list[float], later: float) -> None:
    regression = config({"loss": rule})
    past = [point(day, value, outcome=None) for day, value in enumerate(values)]
    before = replay(regression, past, test=TEST).runs
    after = replay(regression, [*past, point(len(values), later, outcome=None)], test=TEST).runs
    assert after[:-1] == before


@NO_DEADLINE
@given(rules(), FINITE, histories())
def test_the_requested_history_is_sufficient(rule: dict[str, Any], value: float, past: list[StoredMetric]) -> None:
    regression = config({"loss": rule, "default": condition({"fixed_value": 0}, "less")})
    ordered = sorted(past, key=lambda row: (row.timestamp, row.run_key))
    needed = history_needs(regression, TEST).select(ordered)
    assert judgement_of(rule, value, needed) == judgement_of(rule, value, past)


def test_a_failed_value_behind_many_failed_jobs_is_not_requested() -> None:
    """The requested rows and the judged rows must be the same even if a rule uses failed values."""
    rule = {"comparison": "less", "success_threshold": {"change_point": {"min_runs": 2}}, "window": 9}
    bad, good = point(0, 0.0, outcome=Outcome.FAIL), [point(day, 0.0, outcome=None) for day in range(1, 9)]
    failed = [replace(point(day, 0.0, outcome=None), job_status=JobStatus.FAILURE) for day in range(9, 19)]
    past = [bad, *good, *failed]
    needed = history_needs(config({"loss": rule}), TEST).select(past)
    assert bad not in needed
    assert judgement_of(rule, 0.0, needed) == judgement_of(rule, 0.0, past)


@NO_DEADLINE
@given(rules(), WIDE, histories())
@example(condition({"change_point": {"min_runs": 2}}, "less"), 0.0, LARGE_NOISE)
def test_no_verdict_is_lost_and_none_passes_without_reason(
    rule: dict[str, Any], value: float | None, past: list[StoredMetric]
) -> None:
    measured = {} if value is None else {"loss": value}
    judgement = judged(config({"loss": rule}), measured, past, now=NOW)
    (verdict,) = judgement.verdicts
    if verdict.outcome is Outcome.PASS:
        assert value is not None
        assert math.isfinite(value)
        assert verdict.bounds is not None
        assert verdict.baseline_points > 0
    assert judgement.passed == (not verdict.broken)
    assert Judgement.from_document(judgement.document()) == judgement


@NO_DEADLINE
@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=12), st.floats(0, 5), st.floats(-1e3, 1e3))
def test_a_wider_rule_passes_whatever_a_narrower_one_passes(values: list[float], times: float, value: float) -> None:
    past = [point(day, each) for day, each in enumerate(values)]
    narrow = judgement_of(condition({"stddevs_from_mean": times}), value, past).verdicts[0]
    wide = judgement_of(condition({"stddevs_from_mean": times + 1}), value, past).verdicts[0]
    assert narrow.outcome is Outcome.FAIL or wide.outcome is Outcome.PASS


@NO_DEADLINE
@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=12), st.floats(-1e3, 1e3))
def test_negated_values_turn_greater_into_less(values: list[float], value: float) -> None:
    past = [point(day, each) for day, each in enumerate(values)]
    mirrored = [replace(row, value=-(row.value or 0.0)) for row in past]
    less = judgement_of(condition({"mads_from_median": 3}, "less"), value, past).verdicts[0]
    greater = judgement_of(condition({"mads_from_median": 3}, "greater"), -value, mirrored).verdicts[0]
    assert less.outcome == greater.outcome


def test_documents_from_before_the_reference_was_stored_are_read() -> None:
    judgement = judged(config({"loss": condition({"stddevs_from_mean": 2})}), {"loss": 3.0}, history([1.0, 2.0, 3.0]))
    document = judgement.document()
    for each in document["verdicts"]:
        del each["reference"], each["spread"]
    (found,) = Judgement.from_document(document).verdicts
    assert found == replace(judgement.verdicts[0], reference=None, spread=None)
