"""Parsing JSON: every text is either a value or a problem."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ml_metrics.config.json import parse_json
from ml_metrics.config.problems import InvalidFileError
from ml_metrics.config.yaml import parse_yaml


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


@pytest.mark.parametrize("parse", [parse_json, parse_yaml])
@given(text=st.one_of(st.text(), st.text(alphabet='{}[]:,"#/*-\n ab1&*!|>\t')))
def test_any_text_is_a_value_or_a_problem(parse: Any, text: str) -> None:
    try:
        parse(text, "f")
    except InvalidFileError as error:
        assert all(str(problem).startswith("f:") for problem in error.problems)


def test_json_accepts_comments_and_trailing_commas() -> None:
    text = '{ # one\n "a": 1, // two\n "b": [1, 2,], /* three\n lines */ "c": "# no // comment",\n}'
    read, lines, warnings = parse_json(text, "f")
    assert read == {"a": 1, "b": [1, 2], "c": "# no // comment"}
    assert (lines["a",], lines["c",], warnings) == (2, 4, ())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("9" * 5_000, "too many digits"),
        (r'"\ud800"', "a lone surrogate"),
        (r'"\x"', "is not valid text"),
        ("[1 2]", "expected ','"),
        ("NaN", "NaN"),
        ("/* " * 100_000, "is not JSON"),
    ],
)
def test_invalid_json_values_are_problems(text: str, message: str) -> None:
    with pytest.raises(InvalidFileError, match=message):
        parse_json(text, "f")


@pytest.mark.parametrize("parse", [parse_json, parse_yaml])
@pytest.mark.parametrize("opening", ["[", '{"a":', "- ", "? "])
def test_too_deep_nesting_is_a_problem(parse: Any, opening: str) -> None:
    for depth in (100, 900, 100_000):
        with pytest.raises(InvalidFileError):
            parse(opening * depth + "1", "f")


@given(values(st.text(st.characters(categories=["L", "N", "P", "S"]))))
def test_yaml_parses_json_alike(value: Any) -> None:
    read, _, _ = parse_yaml(json.dumps(value, ensure_ascii=False), "f")
    assert read == value


def test_yaml_uses_the_core_schema_of_1_2() -> None:
    text = "{a: yes, b: on, c: 12:30, d: 0o17, e: 017, f: ~, g: 1e3, h: .inf, i: 2026-05-31, 1: x, j: No}"
    read, _, _ = parse_yaml(text, "f")
    assert read == {
        "a": "yes",
        "b": "on",
        "c": "12:30",
        "d": 15,
        "e": 17,
        "f": None,
        "g": 1000.0,
        "h": math.inf,
        "i": "2026-05-31",
        "1": "x",
        "j": "No",
    }


def test_yaml_merge_keys() -> None:
    read, _, _ = parse_yaml("base: &b {x: 1, y: 2}\nheir: {<<: *b, y: 3}\nboth: {<<: [*b, {z: 4, x: 5}]}\n", "f")
    assert read["heir"] == {"x": 1, "y": 3}
    assert read["both"] == {"x": 1, "y": 2, "z": 4}


def test_too_deep_block_nesting_is_a_problem() -> None:
    with pytest.raises(InvalidFileError, match="nested too deeply"):
        parse_yaml("".join(" " * depth + "a:\n" for depth in range(3_000)), "f")
    with pytest.raises(InvalidFileError, match="nested too deeply"):
        parse_yaml("[" * 500 + "]" * 500, "f")
