"""Parsing JSON: every text is either a value or a problem."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ml_metrics.config.json import parse_json
from ml_metrics.config.problems import InvalidFileError


def values(text: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    number = st.one_of(st.integers(), st.floats(allow_nan=False, allow_infinity=False))
    return st.recursive(
        st.one_of(st.none(), st.booleans(), number, text),
        lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(text, inner, max_size=4)),
        max_leaves=20,
    )


@given(values(st.text()))
def test_json_parses_like_the_standard_library(value: Any) -> None:
    read, lines, warnings = parse_json(json.dumps(value, indent=1), "f")
    assert (read, warnings) == (value, ())
    assert lines[()] == 1


@given(text=st.one_of(st.text(), st.text(alphabet='{}[]:,"#/*-\n ab1&*!|>\t')))
def test_any_text_is_a_value_or_a_problem(text: str) -> None:
    try:
        parse_json(text, "f")
    except InvalidFileError as error:
        assert all(str(problem).startswith("f:") for problem in error.problems)  # noqa: PT017  (either is right)


def test_json_accepts_comments_and_trailing_commas() -> None:
    text = '{ # one\n "a": 1, // two\n "b": [1, 2,], /* three\n lines */ "c": "# no // comment",\n}'
    read, lines, warnings = parse_json(text, "f")
    assert read == {"a": 1, "b": [1, 2], "c": "# no // comment"}
    assert (lines["a",], lines["c",], warnings) == (2, 4, ())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("9" * 5_000, "too many digits"),
        (r'"\x"', r"is not JSON: Invalid \\escape"),
        ("[1 2]", "expected ',' and not '2'"),
    ],
)
def test_invalid_json_values_are_problems(text: str, message: str) -> None:
    with pytest.raises(InvalidFileError, match=message):
        parse_json(text, "f")


@pytest.mark.parametrize("opening", ["[", '{"a":', "- ", "? "])
def test_too_deep_nesting_is_a_problem(opening: str) -> None:
    for depth in (100, 900, 100_000):
        with pytest.raises(InvalidFileError):
            parse_json(opening * depth + "1", "f")
