"""Which of several names and patterns counts."""

from __future__ import annotations

import re
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ml_metrics.config.patterns import (
    MAX_LENGTH,
    best_match,
    check_expression,
    check_pattern,
    found_in,
    full_match,
    is_pattern,
    matches,
)

ORDER = ["eval/loss_final", "eval/loss_*", "eval/*_final", "eval/*", "*_final", "*", "re:.*"]


@pytest.mark.parametrize("first", range(len(ORDER)))
def test_the_most_particular_pattern_counts_whatever_their_order(first: int) -> None:
    for patterns in permutations(ORDER[first:], min(3, len(ORDER) - first)):
        expected = min(patterns, key=ORDER.index)
        assert best_match(patterns, "eval/loss_final") == expected


def test_the_first_of_equal_patterns_counts() -> None:
    assert best_match(["*a", "a*"][::-1], "aba") == "a*"
    assert best_match(["re:.*", "re:a.*"], "ab") == "re:.*"
    assert best_match(["?b", "[a]b"], "ab") == "?b"


def test_a_pattern_covers_the_whole_name() -> None:
    assert not matches("loss", "loss_final")
    assert not matches("re:loss", "loss_final")
    assert not matches("*loss", "loss_final")
    assert best_match(["loss", "x*"], "loss_final") is None


@given(st.text(min_size=1))
def test_a_name_matches_itself_first(name: str) -> None:
    if not name.startswith("re:"):
        assert best_match(["*", name], name) == name


@pytest.mark.parametrize(
    ("text", "expected"), [("loss", False), ("l*s", True), ("l[ab]", True), ("re:x", True), ("a[", False)]
)
def test_what_is_a_pattern(text: str, *, expected: bool) -> None:
    assert is_pattern(text) is expected


@pytest.mark.parametrize("text", ["", "re:("])
def test_an_invalid_pattern_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="pattern"):
        check_pattern(text)


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
