"""The notice about a trial."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ml_metrics import TestDefinition
from ml_metrics.alerts.trials import change_in_percent, changes_of
from ml_metrics.pipeline import RunState
from ml_metrics.store.run_folder import RunFolder

NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
TEST = TestDefinition(
    name="t", image="image:v1", command=("train",), args=("--fast",), params={"size": 10, "api_token": "a", "x": "y"}
)


def changes(place: Path, *trial: str, **params: object) -> list[tuple[str, str]]:
    folder = RunFolder(str(place))
    folder.write("run", {"trial": trial, "params": params})
    return [(fact.name, fact.value) for fact in changes_of(TEST, RunState(folder))]


def test_what_was_changed_is_stated_with_both_values(tmp_path: Path) -> None:
    given = {"image": "image:v2", "command": ["python", "a b.py"], "size": 20}
    assert changes(tmp_path, "image", "command", "size", **given) == [
        ("image", "image:v2 instead of image:v1"),
        ("command", "python 'a b.py' instead of train --fast"),
        ("size", "20 instead of 10"),
    ]


def test_a_value_that_may_be_secret_is_not_stated(tmp_path: Path) -> None:
    assert changes(tmp_path, "api_token", api_token="hunter2") == [("api_token", "another value")]


@pytest.mark.parametrize(
    ("value", "was", "text"),
    [
        (1.1, 1.0, " (+10 %)"),
        (0.5, 1.0, " (-50 %)"),
        (-2.0, -1.0, " (-100 %)"),
        (-0.5, -1.0, " (+50 %)"),
        (1.0, 1.0, ""),
        (1.0, 0.0, ""),
        (None, 1.0, ""),
        (1e308, 1e-308, ""),
    ],
)
def test_a_change_is_in_percent_of_the_regular_run(value: float | None, was: float, text: str) -> None:
    assert change_in_percent(value, was) == text


@given(value=NUMBERS, was=NUMBERS)
def test_a_change_never_fails_and_has_the_sign_of_the_difference(value: float, was: float) -> None:
    text = change_in_percent(value, was)
    assert "nan" not in text
    assert "inf" not in text
    if text:
        assert math.copysign(1, value - was) == (1 if "+" in text.split("e")[0] else -1)
