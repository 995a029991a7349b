from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ml_metrics.core.model import Bounds, Outcome, Run, Verdict

finite = st.floats(allow_nan=False, allow_infinity=False)


@given(finite, finite, finite)
def test_open_bounds_contain_the_values_strictly_between(lower: float, upper: float, value: float) -> None:
    assert Bounds(lower, upper).contains(value) == (lower < value < upper)


@given(finite)
def test_unbounded_means_every_finite_number(value: float) -> None:
    assert Bounds().contains(value)
    assert not any(Bounds(inclusive=True).contains(odd) for odd in (math.nan, math.inf, -math.inf))


@given(finite)
def test_inclusive_bounds_contain_their_ends(bound: float) -> None:
    assert Bounds(bound, bound, inclusive=True).contains(bound)
    assert not Bounds(bound, bound).contains(bound)


def test_inclusive_bounds_allow_for_rounding_errors() -> None:
    assert Bounds(0.3, 0.3, inclusive=True).contains(0.1 + 0.2)


def test_bounds_are_written_as_an_interval() -> None:
    assert str(Bounds(lower=0.96)) == "(0.96, inf)"


def test_a_run_key_is_unique_and_never_changes() -> None:
    run = Run(test="t", dag_id="d", run_id="manual__1", deployment="prod")
    assert run.key == Run(test="renamed", dag_id="d", run_id="manual__1", deployment="prod").key
    assert run.key == "874d5990-9e53-5b75-852d-84a52eb82307"
    others = [
        Run("t", "d", "manual__2", "prod"),
        Run("t", "e", "manual__1", "prod"),
        Run("t", "d", "manual__1", "dev"),
        Run("t", "dmanual__1", "", "prod"),
    ]
    assert len({run.key, *(other.key for other in others)}) == 5


@pytest.mark.parametrize("outcome", Outcome)
def test_failed_missing_and_non_finite_are_broken(outcome: Outcome) -> None:
    verdict = Verdict("m", outcome, 1.0, None, "rule")
    assert verdict.broken == (outcome in {"fail", "missing", "non_finite"})
