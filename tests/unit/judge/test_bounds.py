"""Bounds, and the runs of a baseline from which they are computed."""

from __future__ import annotations

import math
import random
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ml_metrics.config.conditions import Condition, MinChange
from ml_metrics.core.model import Bounds, Outcome, StoredMetric
from ml_metrics.judge import Judgement, history_needs, replay
from ml_metrics.judge.bounds import (
    LASTING,
    Span,
    best_level,
    level_of,
    levels_among,
    minimum_change,
    outliers,
    scale_of,
    span_of,
)
from ml_metrics.judge.judgement import AlertKind
from unit.judge.cases import TEST, condition, config, history, judged, noisy, point, verdict

INF = math.inf
FOUR = [10.0, 12.0, 14.0, 16.0]  # mean 13, population sd sqrt(5), median 13, MAD 2
SD = math.sqrt(5)
RULES = [
    ({"fixed_value": 0.96}, "greater", {}, (0.96, INF)),
    ({"fixed_value": 0.5}, "less", {}, (-INF, 0.5)),
    ({"fixed_value": 3}, "equal", {}, (3, 3)),
    ({"stddevs_from_mean": 2}, "less", {}, (-INF, 13 + 2 * SD)),
    ({"stddevs_from_mean": 2}, "greater", {}, (13 - 2 * SD, INF)),
    ({"stddevs_from_mean": 2.5}, "within", {}, (13 - 2.5 * SD, 13 + 2.5 * SD)),
    ({"stddevs_from_mean": 0}, "less_or_equal", {}, (-INF, 13)),
    ({"percent_difference": 20}, "less", {}, (-INF, 15.6)),
    ({"percent_difference": 20}, "greater_or_equal", {}, (10.4, INF)),
    ({"percent_difference": {"percent": 20, "value": -10}}, "within", {}, (-12, -8)),
    ({"percent_difference": {"percent": 20, "value": -10}}, "less", {}, (-INF, -8)),
    ({"percent_difference": {"percent": 20, "value": 0}}, "within", {}, (0, 0)),
    ({"within_bounds": {"lower": 1, "upper": 2}}, "within", {}, (1, 2)),
    ({"within_bounds": {"upper": 2}}, "within", {}, (-INF, 2)),
    ({"within_bounds": {"lower": 1}}, "within", {}, (1, INF)),
    ({"mads_from_median": 3}, "within", {}, (7, 19)),
    ({"mads_from_median": 3}, "less", {}, (-INF, 19)),
    ({"stddevs_from_mean": 1}, "less", {"min_change": {"absolute": 5}}, (-INF, 18)),
    ({"stddevs_from_mean": 4}, "less", {"min_change": {"absolute": 5}}, (-INF, 13 + 4 * SD)),
    ({"stddevs_from_mean": 1}, "within", {"min_change": {"percent": 50}}, (6.5, 19.5)),
    ({"stddevs_from_mean": 1}, "less", {"min_change": {"percent": 50, "absolute": 7}}, (-INF, 20)),
    ({"fixed_value": 10}, "less", {"min_change": {"percent": 10}}, (-INF, 11)),
    ({"within_bounds": {"lower": 10}}, "within", {"min_change": {"absolute": 1}}, (9, INF)),
]


@pytest.mark.parametrize(("threshold", "comparison", "rest", "bounds"), RULES)
def test_bounds_match_values_computed_by_hand(
    threshold: dict[str, Any], comparison: str, rest: dict[str, Any], bounds: tuple[float, float]
) -> None:
    found = verdict(condition(threshold, comparison, **rest), 13.0, history(FOUR)).bounds
    assert found is not None
    assert (found.lower, found.upper) == pytest.approx(bounds, rel=1e-12)


@pytest.mark.parametrize(
    ("comparison", "at_bound"),
    [("greater", "fail"), ("less", "fail"), ("greater_or_equal", "pass"), ("less_or_equal", "pass"), ("equal", "pass")],
)
def test_only_inclusive_comparisons_accept_the_bound(comparison: str, at_bound: str) -> None:
    assert verdict(condition({"fixed_value": 0.3}, comparison), 0.3).outcome == at_bound


def test_equal_tolerates_rounding_only() -> None:
    rule = condition({"fixed_value": 0.3}, "equal")
    assert verdict(rule, 0.1 + 0.2).outcome is Outcome.PASS
    assert verdict(rule, 0.300001).outcome is Outcome.FAIL


@pytest.mark.parametrize("threshold", [{"stddevs_from_mean": 4}, {"mads_from_median": 4}])
@pytest.mark.parametrize("constant", [5.0, 0.1, 0.0, -3.7, 1e308])
def test_an_unchanged_constant_passes_and_a_changed_one_fails(threshold: dict[str, Any], constant: float) -> None:
    rule = condition(threshold, "less")
    assert verdict(rule, constant, history([constant] * 7)).outcome is Outcome.PASS
    above = math.nextafter(constant, INF) + abs(constant) * 1e-6
    assert verdict(rule, above, history([constant] * 7)).outcome is Outcome.FAIL


def test_a_percentage_of_zero_accepts_only_zero() -> None:
    rule = condition({"percent_difference": 20}, "less")
    assert verdict(rule, 0.0, history([0.0, 0.0])).outcome is Outcome.PASS
    failed = verdict(rule, 0.1, history([0.0, 0.0]))
    assert failed.outcome is Outcome.FAIL
    assert "min_change" in failed.reason
    roomy = condition({"percent_difference": 20}, "less", min_change={"absolute": 1})
    assert verdict(roomy, 0.1, history([0.0, 0.0])).outcome is Outcome.PASS


@pytest.mark.parametrize("values", [[1.7e308, -1.7e308], [1.7e308, 1.6e308]])
def test_values_too_large_for_bounds_fail_with_a_reason(values: list[float]) -> None:
    found = verdict(condition({"stddevs_from_mean": 4}, "within"), 1.0, history(values))
    assert found.outcome is Outcome.FAIL
    assert "could not be applied" in found.reason


@pytest.mark.parametrize(
    ("rule", "reference", "spread"),
    [
        (condition({"stddevs_from_mean": 2.0}), 3.0, 2.0),
        (condition({"mads_from_median": 2.0}), 3.0, 2.0),
        (condition({"mads_from_median": 2.0}, "greater", against="best"), 3.0, pytest.approx(4 / 2**0.5)),
        (condition({"percent_difference": 10}), 3.0, None),
        (condition({"percent_difference": {"percent": 10, "value": 3.0}}), None, None),
        (condition({"fixed_value": 3.0}, "equal"), None, None),
        (condition({"within_bounds": {"lower": 1.0}}), None, None),
    ],
)
def test_reference_and_spread_are_those_that_the_bounds_were_computed_from(
    rule: dict[str, Any], reference: float | None, spread: float | None
) -> None:
    found = verdict(rule, 3.0, history([1.0, 5.0, 1.0, 5.0]))
    assert found.bounds is not None
    assert (found.reference, found.spread) == (reference, spread)


BEST = condition({"percent_difference": 5}, "less", against="best", wait_for_n_points_of_history=9)
MEAN = condition({"percent_difference": 5}, "less", wait_for_n_points_of_history=9)


def failures(rule: dict[str, object], values: list[float]) -> list[int]:
    runs = replay(config({"step_time": rule}), history(values, metric="step_time", outcome=None), test=TEST).runs
    return [day for day, run in enumerate(runs) if run.judgement.verdicts[0].outcome is Outcome.FAIL]


@pytest.mark.parametrize("seed", range(2))
def test_one_percent_a_week_fails_against_the_best_level_and_not_the_mean(seed: int) -> None:
    noise = np.random.default_rng(seed).normal(0, 0.3, 140)
    values = [float(100 * 1.01 ** (day / 7) + noise[day]) for day in range(140)]
    narrow = {**MEAN, "window": 20}
    assert failures(narrow, values) == []
    caught = failures(BEST, values)
    assert 20 < caught[0] < 50
    assert len(caught) > 90


TEN_DAYS = [9.0, 1.0, 8.0, 2.0, 7.0, 3.0, 6.0, 4.0, 5.0, 0.0]


@pytest.mark.parametrize(("runs", "least", "greatest"), [(1, 9, 9), (8, 5, 5), (9, 5, 5), (10, 4, 5)])
def test_a_plateau_is_the_median_of_nine_runs_in_a_row_or_of_all_if_there_are_fewer(
    runs: int, least: float, greatest: float
) -> None:
    assert best_level(TEN_DAYS[:runs], greater=False)[0] == least
    assert best_level(TEN_DAYS[:runs], greater=True)[0] == greatest


@pytest.mark.parametrize(
    ("threshold", "rest", "values", "level"),
    [
        ("stddevs_from_mean", {}, [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0], (5, 2, "mean")),
        ("mads_from_median", {}, [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0], (4.5, 0.5, "median")),
        ("stddevs_from_mean", {"against": "best"}, [3.0], (3, 0, "best level")),
        ("stddevs_from_mean", {}, [3.0], (3, 0, "mean")),
        ("mads_from_median", {}, [3.0], (3, 0, "median")),
        ("stddevs_from_mean", {}, [0.1] * 3, (0.1, 0, "mean")),  # exact, and within the values
        ("percent_difference", {}, [1e16, 1.0, -1e16], (1 / 3, 1e16 * (2 / 3) ** 0.5, "mean")),
        ("percent_difference", {}, [5e-324, 5e-324, 0.0], (5e-324, 0, "mean")),
    ],
)
def test_the_level_and_the_spread_of_a_baseline(
    threshold: str, rest: dict[str, str], values: list[float], level: tuple[float, float, str]
) -> None:
    given = Condition.model_validate(condition({threshold: 3}, "less", **rest))
    found = level_of(given, values)
    assert (found[0], pytest.approx(found[1]), found[2]) == level


@pytest.mark.parametrize("power", [-1060, -1010, -990, 0, 990, 1010, 1019])
@pytest.mark.parametrize(
    "rule",
    [
        condition({"stddevs_from_mean": 3}),
        condition({"mads_from_median": 3}),
        condition({"stddevs_from_mean": 3}, "less", against="best"),
        condition({"mads_from_median": 3}, "less", against="best"),
        condition({"percent_difference": 10}),
    ],
)
def test_bounds_of_any_magnitude_are_those_of_ordinary_values(power: int, rule: dict[str, object]) -> None:
    given = Condition.model_validate(rule)
    plain, scaled = (span_of(given, [math.ldexp(each, by) for each in TEN_DAYS]) for by in (0, power))
    for name in ("lower", "upper"):
        expected = math.ldexp(getattr(plain.bounds, name), power)
        assert getattr(scaled.bounds, name) == pytest.approx(expected, rel=1e-4)
    assert scaled.reference == pytest.approx(math.ldexp(plain.reference or 0.0, power), rel=1e-4)


@pytest.mark.parametrize(
    ("given", "reference", "expected"),
    [
        (None, 50.0, 0),
        (MinChange(absolute=2), 50.0, 2),
        (MinChange(percent=10), 50.0, 5),
        (MinChange(percent=10), -50.0, 5),
        (MinChange(absolute=2, percent=10), 50.0, 5),
        (MinChange(absolute=7, percent=10), 50.0, 7),
        (MinChange(absolute=7, percent=10), 0.0, 7),
        (MinChange(percent=10), 1.7e308, 1.7e307),
    ],
)
def test_the_least_change_is_the_larger_of_both_sizes(
    given: MinChange | None, reference: float, expected: float
) -> None:
    assert minimum_change(given, reference) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("rule", "bounds"),
    [
        (
            condition({"within_bounds": {"lower": -10, "upper": 20}}, min_change={"percent": 10}),
            Bounds(-11, 22, inclusive=True),
        ),
        (
            condition({"within_bounds": {"lower": -10}}, min_change={"absolute": 3}),
            Bounds(-13, math.inf, inclusive=True),
        ),
        (condition({"fixed_value": 10}, "less", min_change={"absolute": 3}), Bounds(-math.inf, 13)),
        (condition({"fixed_value": 10}, "greater_or_equal"), Bounds(10, math.inf, inclusive=True)),
        (condition({"percent_difference": {"percent": 10, "value": 50}}, "greater"), Bounds(45, math.inf)),
        (condition({"percent_difference": {"percent": 0, "value": 50}}, "less"), Bounds(-math.inf, 50)),
        (condition({"percent_difference": {"percent": 10, "value": 0}}, "less"), Bounds(-math.inf, 0, inclusive=True)),
    ],
)
def test_bounds_without_a_history(rule: dict[str, object], bounds: Bounds) -> None:
    assert span_of(Condition.model_validate(rule), []).bounds == bounds


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ({"stddevs_from_mean": 3}, "mean 3 ms, sd 2 ms"),
        ({"mads_from_median": 3}, "median 3 ms, MAD 2 ms"),
        ({"percent_difference": 10}, "mean 3 ms"),
    ],
)
def test_a_span_states_its_level_and_spread(rule: dict[str, object], text: str) -> None:
    assert span_of(Condition.model_validate(condition(rule)), [1.0, 5.0, 1.0, 5.0]).text("ms") == text


def test_a_level_of_nothing_says_why_no_difference_is_allowed() -> None:
    rule = condition({"percent_difference": 10})
    note = ", of which every percentage is 0: set min_change to allow a difference"
    assert span_of(Condition.model_validate(rule), [0.0, 0.0]).text("") == f"mean 0{note}"
    rule = {**rule, "min_change": {"absolute": 1}}
    assert span_of(Condition.model_validate(rule), [0.0, 0.0]).text("") == "mean 0"
    assert not Span(Bounds()).text("ms")


STEADY = [100 + (index % 5 - 2) * 0.7 for index in range(20)]
SPREAD = condition({"stddevs_from_mean": 4}, "less", wait_for_n_points_of_history=10)
RELATIVE = [
    SPREAD,
    condition({"mads_from_median": 5}, "less"),
    condition({"percent_difference": 10}, "less"),
    condition({"stddevs_from_mean": 4}, "less", against="best"),
    condition({"mads_from_median": 5}, "less", against="best"),
    condition({"percent_difference": 10}, "less", against="best"),
]


def test_one_run_that_is_too_good_does_not_loosen_the_bound() -> None:
    without = verdict(SPREAD, 110.0, history(STEADY)).bounds
    found = verdict(SPREAD, 110.0, history([*STEADY, 0.0]))
    assert found.outcome is Outcome.FAIL
    assert found.bounds == without
    assert found.reason.startswith("110 is above 103.96 (mean 100, sd 0.989949; without 1 implausible value); ")


def test_a_value_that_is_too_good_passes_with_a_warning() -> None:
    judgement = judged(config({"loss": SPREAD}), {"loss": 0.0}, history(STEADY))
    (found,) = judgement.verdicts
    assert (found.outcome, found.implausible, judgement.passed) == (Outcome.PASS, True, True)
    assert found.reason.startswith("implausibly good: 0 is 92 spreads below the median 100; not used as baseline")
    (alert,) = judgement.alerts
    assert alert.kind is AlertKind.IMPLAUSIBLE
    assert alert.message.startswith(f"Metric `loss` passed for test `{TEST}` and should be checked")
    assert Judgement.from_document(judgement.document()) == judgement


def test_muted_metrics_do_not_warn() -> None:
    muted = config({"loss": SPREAD}, alert_for_oob_metrics=False)
    assert judged(muted, {"loss": 0.0}, history(STEADY)).alerts == ()


def test_a_replay_does_not_count_warnings_as_alerts() -> None:
    found = replay(config({"loss": SPREAD}), history([*STEADY, 0.0], outcome=None), test=TEST)
    assert found.summary()["loss"] == {"runs": 21, "fail": 0, "alerts": 0}
    assert [alert.kind for alert in found.runs[-1].judgement.alerts] == [AlertKind.IMPLAUSIBLE]


@pytest.mark.parametrize("rule", RELATIVE)
@pytest.mark.parametrize("outcome", [None, "pass"])
def test_huge_values_do_not_open_a_bound(rule: dict[str, object], outcome: str | None) -> None:
    past = history([*[100.0] * 30, *[1e300] * 3], outcome)
    assert verdict(rule, 1e300, past).outcome is Outcome.FAIL
    assert verdict(rule, 100.0, past).outcome is Outcome.PASS


def test_a_lasting_improvement_becomes_the_baseline() -> None:
    better = [60 + (index % 5 - 2) * 0.7 for index in range(LASTING)]
    rule = condition({"stddevs_from_mean": 4}, "less")
    before, after = (verdict(rule, 100.0, history([*STEADY * 2, *better[:count]])) for count in (8, 9))
    assert (before.outcome, before.baseline_points) == (Outcome.PASS, 40)
    assert (after.outcome, after.baseline_points) == (Outcome.FAIL, 9)
    assert "since the level changed in run run-00040 of 2026-02-10" in after.reason
    best = [verdict({**rule, "against": "best"}, 90.0, history([*STEADY * 2, *better[:count]])) for count in (8, 9)]
    assert [each.outcome for each in best] == [Outcome.PASS, Outcome.FAIL]


def test_outliers_on_both_sides_in_a_row_are_no_level() -> None:
    values = [*STEADY * 2, *[80.0, 120.0] * 5]
    assert levels_among(outliers(values), values) == []
    values = [*STEADY * 2, *[80.0] * 9]
    assert levels_among(outliers(values), values) == [list(range(40, 49))]


@pytest.mark.parametrize(
    ("values", "spread"),
    [
        ([1.0] * 7, None),
        ([100.0] * 8, 10 / 2),  # a twentieth
        ([*[100.0] * 17, *[110.0] * 3], 10 / 1.6449),
        ([*[100.0] * 15, *[110.0] * 5], 10 / 1.2816),
        ([*[100.0] * 10, *[110.0] * 10], 10 / 2 / 0.6745),
    ],
)
def test_the_spread_of_values_of_which_many_are_equal(values: list[float], spread: float | None) -> None:
    scale = scale_of(values)
    assert (scale and scale.spread) == (spread and pytest.approx(spread, rel=1e-3))


@pytest.mark.parametrize(("runs", "plausible", "implausible"), [(10, 12.5, 13.1), (20, 10.3, 10.5), (60, 8.7, 8.9)])
def test_a_few_values_can_be_close_by_chance(runs: int, plausible: float, implausible: float) -> None:
    """The limit of 8 spreads is greater by six parts of the number of values."""
    steady = [100.0 + 1.2816 * (1, -1)[index % 2] for index in range(runs)]
    spread = 1.4826 * 1.2816
    assert not verdict(SPREAD, 100 - plausible * spread, history(steady)).implausible
    assert verdict(SPREAD, 100 - implausible * spread, history(steady)).implausible


@given(st.lists(st.floats(-1e6, 1e6), min_size=8, max_size=30), st.sampled_from(range(len(RELATIVE))))
def test_a_value_that_is_too_good_never_loosens_a_bound(values: list[float], number: int) -> None:
    scale = scale_of(values)
    if scale is None:
        return
    good = scale.median - 2 * (scale.limit * scale.spread + max(values) - min(values) + 1e-3)
    before = verdict(RELATIVE[number], 0.0, history(values)).bounds
    after = verdict(RELATIVE[number], 0.0, [*history(values), point(500, good)]).bounds
    if before is not None and after is not None:
        assert after.upper <= before.upper + 1e-9 * abs(before.upper)


PERCENT = condition({"percent_difference": 10}, "less")
EVERY_RULE = [
    condition(threshold, comparison, **rest)
    for threshold in ({"stddevs_from_mean": 4}, {"mads_from_median": 5}, {"percent_difference": 10})
    for comparison in ("less", "greater", "within")
    for rest in ({}, {"against": "best"})
    if not (rest and comparison == "within")
]
ANY_NUMBER = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from(
    [0.0, 1.0, -1.0, 1e308, -1e308, 1e-308, 5e-324]
)


def steps_of(*levels: tuple[float, int]) -> list[float]:
    rng = np.random.default_rng(5)
    return [float(level + rng.normal()) for level, runs in levels for _ in range(runs)]


def test_a_baseline_begins_at_the_last_change_of_level() -> None:
    found = verdict(SPREAD, 96.0, history(steps_of((110, 40), (90, 20))))
    assert (found.outcome, found.baseline_points) == (Outcome.FAIL, 20)
    assert "since the level changed in run run-00040 of 2026-02-10" in found.reason


def test_a_level_that_the_newest_run_has_left_begins_with_the_first_of_its_runs() -> None:
    """Also where that run is near enough to the others to be no outlier."""
    values = [*noisy([(100, 50)], 17), *noisy([(120, 12)], 17, noise=5.0), 100.0]
    found = verdict(condition({"mads_from_median": 4}, "greater"), 90.0, history(values))
    assert "since the level changed in run run-00050" in found.reason


def test_small_losses_that_passed_do_not_add_up() -> None:
    """Each step of 6 % is allowed by itself; the bound follows the mean of the window and not the newest level."""
    values = steps_of((100, 40), (106, 12), (112, 12))
    found = verdict(PERCENT, 118.5, history(values))
    assert found.outcome is Outcome.FAIL
    assert found.baseline_points == 64


@pytest.mark.parametrize("comparison", ["less", "greater"])
def test_the_best_level_stays_when_the_level_gets_worse(comparison: str) -> None:
    sign = 1 if comparison == "less" else -1
    values = [sign * each for each in steps_of((100, 40), (104, 40))]
    rule = condition({"percent_difference": 5}, comparison, against="best")
    found = verdict(rule, sign * 107.0, history(values))
    assert found.outcome is Outcome.FAIL
    assert found.baseline_points == 80


@settings(deadline=None, max_examples=150)
@given(
    st.sampled_from(EVERY_RULE),
    st.lists(ANY_NUMBER, max_size=45),
    ANY_NUMBER,
    st.sampled_from([None, "pass"]),
    st.randoms(use_true_random=False),
)
def test_any_floats_are_judged_without_a_warning(
    rule: dict[str, Any], values: list[float], value: float, outcome: str | None, shuffler: random.Random
) -> None:
    past = history(values, outcome)
    mixed = list(past)
    shuffler.shuffle(mixed)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = verdict(rule, value, past)
        assert verdict(rule, value, mixed) == found
    if found.outcome is Outcome.PASS:
        assert found.bounds is not None
        assert found.bounds.contains(value)


@settings(deadline=None, max_examples=60)
@given(
    st.sampled_from(EVERY_RULE),
    st.integers(10, 40),
    st.floats(-4, 4),
    st.integers(9, 30),
    st.integers(1, 20),
    st.integers(0, 1_000),
)
def test_the_requested_history_suffices_for_a_shorter_baseline(
    rule: dict[str, Any], before: int, shift: float, after: int, window: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    values = [*rng.normal(100, 1, before), *rng.normal(100 + shift, 1, after)]
    past: list[StoredMetric] = [point(day, float(value)) for day, value in enumerate(values)]
    narrow = {**rule, "window": 20 + window}
    needed = history_needs(config({"loss": narrow}), TEST).select(past)
    assert verdict(narrow, 100.0, needed) == verdict(narrow, 100.0, past)
