"""Rows of one run and metric that are stored more than once."""

from __future__ import annotations

import math
from itertools import permutations

import pytest

from ml_metrics.config.conditions import Condition
from ml_metrics.judge import replay, worse_side
from ml_metrics.judge.history import EarlierRuns, each_run_once, worst
from unit.judge.cases import NOW, TEST, condition, config, history, point

WORSE = {"less": 150.0, "greater": 60.0, "within": 150.0}


@pytest.mark.parametrize("comparison", WORSE)
@pytest.mark.parametrize("values", list(permutations([60.0, 101.0, 150.0])))
def test_the_worse_of_rows_with_the_same_time_counts(comparison: str, values: tuple[float, ...]) -> None:
    past = [*history([100.0] * 10), *(point(20, value, None, run="twice") for value in values)]
    regression = config({"loss": condition({"percent_difference": 10}, comparison)})
    earlier = EarlierRuns(
        past, test=TEST, run_key="x", now=NOW, side_of=lambda name: worse_side(regression.condition_for(name))
    )
    assert earlier.rows("loss")[-1].value == WORSE[comparison]
    (verdict,) = replay(regression, past, test=TEST).runs[-1].judgement.verdicts
    assert (verdict.value, verdict.outcome) == (WORSE[comparison], "fail")


def test_the_newer_of_two_rows_counts_even_if_it_is_better() -> None:
    past = [*history([100.0] * 10), point(20, 150.0, run="twice"), point(20.5, 99.0, run="twice")]
    regression = config({"loss": condition({"percent_difference": 10}, "less")})
    (verdict,) = replay(regression, past, test=TEST).runs[-1].judgement.verdicts
    assert (verdict.value, verdict.outcome) == (99.0, "pass")


def test_a_row_without_a_value_is_worse_than_any_value() -> None:
    past = [*history([100.0] * 10), point(20, None, None, run="twice"), point(20, 99.0, None, run="twice")]
    regression = config({"loss": condition({"percent_difference": 10}, "less")})
    (verdict,) = replay(regression, past, test=TEST).runs[-1].judgement.verdicts
    assert verdict.outcome == "non_finite"


@pytest.mark.parametrize(
    ("comparison", "side"),
    [("less", 1), ("less_or_equal", 1), ("greater", -1), ("greater_or_equal", -1), ("equal", 0)],
)
def test_the_worse_side_is_that_of_the_comparison(comparison: str, side: int) -> None:
    assert worse_side(Condition.model_validate(condition({"fixed_value": 1}, comparison))) == side
    assert worse_side(Condition.model_validate(condition({"percent_difference": 1}, "within"))) == 0
    assert worse_side(None) == 0


@pytest.mark.parametrize("broken", ["fail", "missing", "non_finite"])
@pytest.mark.parametrize("other", ["pass", "insufficient_data", "skipped", "recorded", None])
def test_a_broken_row_is_worse_than_any_other_of_the_same_time(broken: str, other: str | None) -> None:
    rows = [point(20, 101.0, broken, run="twice"), point(20, 999.0, other, run="twice")]
    assert [row.outcome for row in each_run_once(rows, 1)] == [broken]
    assert [row.outcome for row in each_run_once(rows[::-1], 1)] == [broken]


def test_a_row_of_a_failed_job_is_worse_than_a_broken_one() -> None:
    rows = [point(20, 1.0, "skipped", status="failure", run="twice"), point(20, 999.0, "fail", run="twice")]
    assert each_run_once(rows, 1) == each_run_once(rows[::-1], 1) == rows[:1]


def test_each_run_counts_once_in_the_order_of_time_and_key() -> None:
    rows = [point(2, 1.0, run="b"), point(2, 2.0, run="a"), point(1, 3.0, run="c"), point(3, 4.0, run="c")]
    assert [(row.run_key, row.value) for row in each_run_once(rows, 0)] == [("a", 2.0), ("b", 1.0), ("c", 4.0)]


def test_without_a_side_the_row_that_is_farther_from_the_earlier_ones_is_worse() -> None:
    rows = [point(20, value, None, run="twice") for value in (1.0, 3.0)]
    assert [worst(rows, 0, history([middle])).value for middle in (1.9, 2.0, 2.1)] == [3, 3, 1]
    assert worst([*rows, point(20, 9.0, None)], 0, ()).value == 9
    assert worst([point(20, math.inf, None), *rows], 1, ()).value == math.inf
    huge = [point(20, value, None, run="twice") for value in (1.7e308, -1.0e308)]
    assert worst(huge, 0, history([1.6e308, 1.6e308])).value == -1.0e308
