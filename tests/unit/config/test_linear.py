"""Expressions of test files are matched in linear time."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ml_metrics.config.patterns import MAX_LENGTH, check_expression, check_pattern, found_in, full_match, matches

LONG = "a" * 50_000
SIMPLE = st.recursive(
    st.sampled_from(["a", "b", ".", "[ab]", "[^a]", "x?"]),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda two: f"(?:{two[0]}|{two[1]})"),
        inner.map(lambda one: f"(?:{one})*"),
        inner.map(lambda one: f"(?:{one}){{1,3}}"),
    ),
    max_leaves=5,
)


@pytest.mark.parametrize("expression", ["(a+)+b", "(a|a)*b", "(a|aa)+$b", "(.*a){20}b", "(a*)*b", "([a-z]+)*=="])
def test_expressions_that_take_for_ever_elsewhere_are_decided(expression: str) -> None:
    """`re` would not decide any of these within the age of the universe."""
    assert not full_match(expression, LONG)
    assert not found_in(f"^{expression}$", LONG)
    assert not matches(f"re:{expression}", LONG)


@pytest.mark.parametrize(
    "expression", ["(?=a)b", "(?!a)b", "(?<=a)b", "(?<!a)b", r"(a)\1", "(?P<x>a)(?P=x)", "(?>a*)b"]
)
def test_what_cannot_be_linear_is_a_clear_error(expression: str) -> None:
    with pytest.raises(ValueError, match="without lookarounds, backreferences and atomic groups"):
        check_pattern(f"re:{expression}")


@pytest.mark.parametrize("expression", ["(", "[", "a{1001}", "((a{300}){300}){300}", "a" * (MAX_LENGTH + 1), "\ud800"])
def test_an_invalid_or_huge_expression_is_an_error(expression: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        check_expression(expression)


@given(SIMPLE, st.text("abx\né", max_size=8))
def test_simple_expressions_mean_what_they_mean_in_python(expression: str, text: str) -> None:
    assert full_match(expression, text) is (re.fullmatch(expression, text) is not None)
    assert found_in(expression, text) is (re.search(expression, text) is not None)


def test_a_name_that_is_no_valid_text_matches_nothing_but_does_no_harm() -> None:
    assert full_match(".*", "loss\udcff")
    assert not full_match("loss", "loss\udcff")
