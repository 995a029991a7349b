"""Which of several names and patterns counts."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ml_metrics.config.patterns import best_match, check_pattern, is_pattern, matches

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
