"""Parsing YAML: every text is either a value or a problem."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ml_metrics.config.problems import InvalidFileError
from ml_metrics.config.yaml import parse_yaml
from unit.config.test_json_text import values


@given(values(st.text(st.characters(categories=["L", "N", "P", "S"]))))
def test_yaml_parses_json_alike(value: Any) -> None:
    read, _, _ = parse_yaml(json.dumps(value, ensure_ascii=False), "f")
    assert read == value


@given(text=st.one_of(st.text(), st.text(alphabet='{}[]:,"#/*-\n ab1&*!|>\t')))
def test_any_text_is_a_value_or_a_problem(text: str) -> None:
    try:
        parse_yaml(text, "f")
    except InvalidFileError as error:
        assert all(str(problem).startswith("f:") for problem in error.problems)  # noqa: PT017  (either is right)


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


@pytest.mark.parametrize("opening", ["[", '{"a":', "- ", "? "])
def test_too_deep_nesting_is_a_problem(opening: str) -> None:
    for depth in (100, 900, 100_000):
        with pytest.raises(InvalidFileError):
            parse_yaml(opening * depth + "1", "f")


def test_too_deep_block_nesting_is_a_problem() -> None:
    with pytest.raises(InvalidFileError, match="nested too deeply"):
        parse_yaml("".join(" " * depth + "a:\n" for depth in range(3_000)), "f")
    with pytest.raises(InvalidFileError, match="nested too deeply"):
        parse_yaml("[" * 500 + "]" * 500, "f")
