"""The metric that a run is mainly about, and how far a value is beyond its bounds."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from ml_metrics.core.model import Bounds, StoredMetric
from ml_metrics.judge import Reference, distance, main_metric
from unit.judge.cases import point

UP, DOWN = Bounds(-math.inf, 100), Bounds(100, math.inf)


@pytest.mark.parametrize(
    ("value", "bounds", "spread", "expected"),
    [
        (130.0, Bounds(100, 120), None, 0.5),
        (90.0, Bounds(100, 120), 5.0, 0.5),
        (110.0, Bounds(100, 120), None, 0),
        (100.0, Bounds(100, 120), None, 0),
        (110.0, UP, 5.0, 2),
        (110.0, UP, None, 0.1),
        (110.0, UP, 0.0, 0.1),
        (90.0, DOWN, 5.0, 2),
        (90.0, DOWN, None, 0.1),
        (110.0, DOWN, 5.0, 0),
        (3.0, Bounds(-math.inf, 0), None, 3),
        (-3.0, Bounds(0, math.inf), None, 3),
        (103.0, Bounds(100, 100), None, 0.03),
        (103.0, Bounds(100, 100), 6.0, 0.5),
        (-60.0, Bounds(-50, math.inf), None, 0.2),
        (5.0, Bounds(), None, 0),
        (None, UP, 5.0, math.inf),
        (5.0, None, 5.0, math.inf),
    ],
)
def test_the_distance_is_in_the_width_of_the_bounds_or_the_spread_or_the_bound(
    value: float | None, bounds: Bounds | None, spread: float | None, expected: float
) -> None:
    assert distance(value, bounds, spread) == pytest.approx(expected)


def row(name: str, value: float | None, outcome: str = "fail", **rest: object) -> StoredMetric:
    return replace(point(20, value, outcome, metric=name), **{"rule": "a rule", **rest})


def test_a_broken_metric_comes_before_one_that_got_worse() -> None:
    worse = row("worse", 500.0, "pass", upper=1000.0)
    broken = row("broken", 101.0, upper=100.0)
    assert main_metric([worse, broken], {"worse": Reference(100, since=worse)}) == broken


@pytest.mark.parametrize("outcome", ["fail", "missing", "non_finite"])
def test_a_broken_metric_without_a_value_or_bounds_comes_first(outcome: str) -> None:
    far, none = row("far", 1e9, upper=100.0), row("none", None, outcome, upper=100.0)
    assert main_metric([far, none], {}) == none
    unbounded = row("unbounded", 3.0)
    assert main_metric([far, unbounded], {}) == unbounded


def test_distances_are_compared_in_the_spread_of_each_metric() -> None:
    noisy, calm = row("noisy", 150.0, upper=100.0, spread=50.0), row("calm", 104.0, upper=100.0, spread=1.0)
    below = row("below", 90.0, lower=100.0, spread=5.0)
    assert main_metric([noisy, calm, below], {}) == calm
    assert main_metric([noisy, below], {}) == below
    assert main_metric([noisy], {}) == noisy


@pytest.mark.parametrize(
    ("rest", "value", "is_worse"),
    [
        ({"upper": 500.0}, 120.0, True),
        ({"upper": 500.0}, 80.0, False),
        ({"lower": 1.0}, 80.0, True),
        ({"lower": 1.0}, 120.0, False),
        ({"lower": 1.0, "upper": 500.0}, 120.0, False),
        ({"lower": 1.0, "upper": 500.0, "better": "lower"}, 120.0, True),
        ({"lower": 1.0, "upper": 500.0, "better": "higher"}, 80.0, True),
        ({"lower": 1.0, "upper": 500.0, "better": "higher"}, 120.0, False),
        ({"better": "lower"}, 120.0, True),
        ({"better": "higher"}, 80.0, True),
        ({}, 120.0, False),
        ({"upper": 500.0, "rule": ""}, 120.0, False),
        ({"upper": 500.0}, None, False),
    ],
)
def test_a_level_got_worse_on_the_side_that_is_bounded_or_known_to_be_worse(
    rest: dict[str, object], value: float | None, is_worse: bool
) -> None:
    one = row("loss", value, "pass", **rest)
    assert main_metric([one], {"loss": Reference(100, since=point(19, 1.0))}) == (one if is_worse else None)


def test_no_level_got_worse_without_a_change_that_is_open() -> None:
    one = row("loss", 120.0, "pass", upper=500.0)
    assert main_metric([one], {"loss": Reference(100)}) is None
    assert main_metric([one], {}) is None
    assert main_metric([], {}) is None


def test_the_level_that_got_worse_most_counts_and_of_equal_ones_the_first() -> None:
    rows = [row(name, value, "pass", upper=500.0) for name, value in (("a", 110.0), ("b", 120.0), ("c", 120.0))]
    references = {each.metric: Reference(100, since=each) for each in rows}
    assert main_metric(rows, references) == rows[1]
