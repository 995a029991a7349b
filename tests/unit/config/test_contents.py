"""Bounds for the content of a test file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ml_metrics.config.loading import load_tests
from ml_metrics.config.validation import MAX_ENTRIES, MAX_TEXT, MAX_TOTAL, SHOWN

TEST = {"name": "t", "image": "i", "command": ["c"]}


def problems_of(tmp_path: Path, content: dict[str, object]) -> list[str]:
    (tmp_path / "t.json").write_text(json.dumps({**TEST, **content}), encoding="utf-8")
    (tmp_path / "innocent.yaml").write_text("{name: innocent, image: i, command: [c]}", encoding="utf-8")
    library = load_tests(tmp_path)
    assert "innocent" in {test.name for test in library.tests}
    assert not any("bug in ml-metrics" in problem.what for problem in library.problems)
    return [f"{problem.path}: {problem.what}" for problem in library.problems]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ({"description": "a\0b"}, "description: contains the character NUL, which no database stores"),
        ({"env": {"A\0": "b"}}, "env: a key contains the character NUL, which no database stores"),
        (
            {"args": ["x" * (MAX_TEXT + 1)]},
            f"args[0]: has {MAX_TEXT + 1:,} characters, at most {MAX_TEXT:,} are allowed",
        ),
        (
            {"args": ["x"] * (MAX_ENTRIES + 1)},
            f"args: has {MAX_ENTRIES + 1:,} entries, at most {MAX_ENTRIES:,} are allowed",
        ),
        ({"params": {"a": 2**65}}, "params.a: is a number with too many digits"),
        ({"priority": 10**400}, "priority: is a number with too many digits"),
    ],
)
def test_a_value_that_airflow_or_its_database_refuses_is_a_problem(
    tmp_path: Path, content: dict[str, object], problem: str
) -> None:
    assert problems_of(tmp_path, content) == [problem]


def test_the_tests_of_a_sweep_are_bounded_together(tmp_path: Path) -> None:
    (found,) = problems_of(tmp_path, {"args": ["x" * MAX_TEXT] * 6, "sweep": {"a": list(range(500))}})
    assert "makes 500 tests of" in found
    assert f"at most {MAX_TOTAL:,} in all" in found


def test_many_texts_of_a_sweep_are_bounded_by_their_length(tmp_path: Path) -> None:
    """A file of half a megabyte made 250 tests of half a megabyte each, which Airflow serialised and stored."""
    (found,) = problems_of(tmp_path, {"params": {"p": {"default": ["x" * 1023] * 480}}, "sweep": {"a": [*range(250)]}})
    assert f"at most {MAX_TOTAL:,} in all" in found


def test_thousands_of_mistakes_are_counted(tmp_path: Path) -> None:
    found = problems_of(tmp_path, {f"descripton{number}": number for number in range(1_900)})
    assert len(found) == SHOWN + 1
    assert found[-1] == f": has {1_900 - SHOWN:,} more mistakes"


def test_a_sweep_over_long_lists_is_refused_before_its_values_are_compared(tmp_path: Path) -> None:
    assert problems_of(tmp_path, {"sweep": {"a": list(range(1_500)), "b": [1, 2]}}) == [
        "sweep: makes 3000 tests; at most 500 are allowed"
    ]
