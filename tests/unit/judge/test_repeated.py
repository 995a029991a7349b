"""Rows of one run and metric that are stored more than once."""

from __future__ import annotations

from itertools import permutations

import pytest

from ml_metrics.judge import replay
from ml_metrics.judge.history import EarlierRuns
from ml_metrics.judge.repeated import worse_side
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
