from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ml_metrics.alerts.metric import change_of, further_reasons, metric_words, value_and_requirement
from ml_metrics.core.model import Bounds, Outcome, Verdict
from ml_metrics.judge import violation

NUMBERS = st.floats(-1e308, 1e308)
BELOW = Bounds(upper=0.05)


def verdict(value: float | None, bounds: Bounds | None, reason: str = "", **more: float) -> Verdict:
    return Verdict("loss_final", Outcome.FAIL, value, bounds, "rule", 12, reason, **more)  # type: ignore[arg-type]


def test_a_headline_has_value_bound_and_change() -> None:
    short, headline = metric_words("out_of_bounds:loss_final", verdict(2.08, BELOW, reference=1.195))
    assert short == "loss_final 2.08, must be below 0.05"
    assert headline == "loss_final 2.08, must be below 0.05 (74 % worse than the baseline)"


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


def test_value_and_bound_have_one_unit_and_are_told_apart() -> None:
    assert value_and_requirement(3.3e9, Bounds(upper=3.2e9), "B") == ("3.3 GB", "below 3.2 GB")
    assert value_and_requirement(0.96001, Bounds(upper=0.96)) == ("0.96001", "below 0.96")


@given(NUMBERS, st.none() | NUMBERS, st.none() | NUMBERS, st.none() | NUMBERS, st.sampled_from(["", "s", "B", "%"]))
def test_every_number_has_a_headline(
    value: float, lower: float | None, upper: float | None, reference: float | None, unit: str
) -> None:
    bounds = Bounds(-math.inf if lower is None else lower, math.inf if upper is None else upper)
    found = Verdict(
        "m", Outcome.FAIL, value, bounds, "", 1, violation(value, bounds, unit), reference=reference, unit=unit
    )
    short, headline = metric_words("out_of_bounds:m", found)
    assert headline.startswith(short)
    assert "inf" not in headline
    assert "nan" not in headline
    assert further_reasons(found) == ""


@pytest.mark.parametrize(
    ("value", "reference", "bounds", "change"),
    [
        (0.9, 0.97, Bounds(lower=0.96), "7.2 % worse than the baseline"),
        (0.9, -1.0, Bounds(upper=-0.5), "190 % worse than the baseline"),
        (2.0, 1.0, Bounds(0.9, 1.1), "100 % above the baseline"),
        (0.5, 1.0, Bounds(0.9, 1.1), "50 % below the baseline"),
        (50.0, 1.0, Bounds(upper=2), "50 times the baseline"),
        (1.0, 2.0, Bounds(upper=0.5), ""),  # it is better than the baseline
        (1.0, 0.0, Bounds(upper=0.5), ""),
        (1e308, 1e-308, Bounds(upper=1), ""),
    ],
)
def test_the_change_is_stated_where_it_says_something(
    value: float, reference: float, bounds: Bounds, change: str
) -> None:
    assert change_of(verdict(value, bounds, reference=reference)) == change


def test_what_the_headline_states_is_not_repeated() -> None:
    violated = violation(2.08, BELOW)
    certain = "very unlikely to be noise: fewer than 1 in 1,000 healthy runs look like this"
    assert further_reasons(
        verdict(2.08, BELOW, f"{violated} (mean 1, sd 2; without 1 implausible value); {certain}")
    ) == (f"without 1 implausible value; {certain}")
    assert further_reasons(verdict(2.08, BELOW, f"{violated}; confirmed by 2 runs")) == "confirmed by 2 runs"


@pytest.mark.parametrize(
    ("problem", "short"),
    [
        ("missing:loss_final", "loss_final is missing"),
        ("non_finite:loss_final", "loss_final is not a finite number"),
        ("not_judged:loss_final", "loss_final was not judged"),
        ("change_point:loss_final", "loss_final: the level rose from 1 to 2 (+100 %)"),
    ],
)
def test_other_problems_are_named(problem: str, short: str) -> None:
    reason = "the level rose from 1 to 2 (+100 %), first in run abc of 2026-01-02 03:05"
    found, headline = metric_words(problem, verdict(None, None, reason))
    assert found == short
    assert reason in headline
