from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ml_metrics.model import Bounds, Outcome, Run, Verdict

finite = st.floats(allow_nan=False, allow_infinity=False)


@given(finite, finite, finite)
def test_open_bounds_admit_what_lies_strictly_between(lower: float, upper: float, value: float) -> None:
    assert Bounds(lower, upper).admit(value) == (lower < value < upper)


@given(finite)
def test_no_bounds_admit_every_number_and_nothing_else(value: float) -> None:
    assert Bounds().admit(value)
    assert not any(Bounds(inclusive=True).admit(odd) for odd in (math.nan, math.inf, -math.inf))


@given(finite)
def test_inclusive_bounds_admit_their_ends(bound: float) -> None:
    assert Bounds(bound, bound, inclusive=True).admit(bound)
    assert not Bounds(bound, bound).admit(bound)


def test_inclusive_bounds_forgive_what_rounding_did() -> None:
    assert Bounds(0.3, 0.3, inclusive=True).admit(0.1 + 0.2)


def test_bounds_read_as_users_know_them() -> None:
    assert str(Bounds(lower=0.96)) == "(0.96, inf)"


def test_the_key_of_a_run_is_its_own_and_never_changes() -> None:
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
def test_only_trouble_is_broken(outcome: Outcome) -> None:
    verdict = Verdict("m", outcome, 1.0, None, "rule")
    assert verdict.broken == (outcome in {"fail", "missing", "non_finite"})
