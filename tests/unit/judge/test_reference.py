"""The reference of a value, and the metric that a run is about."""

from __future__ import annotations

import math
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ml_metrics.core.model import Bounds, StoredMetric
from ml_metrics.judge import Reference, distance, main_metric, reference_of
from unit.judge.cases import DAY, START, condition, config, history, judged, point

RULES: dict[str, dict[str, Any]] = {
    "the level": {"comparison": "less"},
    "the level, after eight runs": condition({"change_point": {"min_runs": 8}}, "less"),
    "5 %": condition({"percent_difference": 5}, "less"),
    "50 %": condition({"percent_difference": 50}, "less"),
    "5 % after 20 runs": condition({"percent_difference": 5}, "less", wait_for_n_points_of_history=20),
    "3 sd": condition({"stddevs_from_mean": 3}, "less"),
    "20 sd": condition({"stddevs_from_mean": 20}, "less"),
    "5 MAD": condition({"mads_from_median": 5}, "less"),
    "a near bound": condition({"fixed_value": 101}, "less"),
    "a far bound": condition({"fixed_value": 1e6}, "less"),
}


def judged_series(rule: dict[str, Any], values: list[float]) -> list[StoredMetric]:
    """The rows that a test with one condition leaves, run by run."""
    rows: list[StoredMetric] = []
    for day, value in enumerate(values):
        (verdict,) = judged(config({"loss": rule}), {"loss": value}, rows, now=START + day * DAY).verdicts
        rows.append(
            replace(point(day, value, verdict.outcome), reference=verdict.reference, rule=verdict.rule, upper=1)
        )
    return rows


def series(seed: int, before: int, after: int, *, shift: float, noise: float) -> list[float]:
    random = Random(seed)
    spread = abs(shift) * noise
    return [100 + shift * (day >= before) + random.uniform(-spread, spread) for day in range(before + after)]


@settings(max_examples=25, deadline=None)
@given(
    rule=st.sampled_from(sorted(RULES)),
    before=st.integers(5, 40),  # of three runs and four, either may be the level
    after=st.integers(1, 25),
    shift=st.sampled_from([1, 3, 8, 30, 300]) | st.floats(0.5, 500),
    noise=st.sampled_from([0.0, 0.01, 0.1]),
    seed=st.integers(0, 10**6),
)
def test_a_planted_shift_never_shows_under_half_its_size(
    rule: str, before: int, after: int, shift: float, noise: float, seed: int
) -> None:
    rows = judged_series(RULES[rule], series(seed, before, after, shift=shift, noise=noise))
    for row in rows[before:]:
        reference = reference_of(row, rows)
        assert reference is not None
        assert reference.good in rows[:before], "a run of the new level is no good run"
        percent = reference.percent(row.value)
        assert percent is not None
        assert percent >= shift / 2, f"run {rows.index(row) - before + 1} at the new level, {row.outcome}"


def test_the_change_is_named_with_its_first_run_and_ends_with_the_old_level() -> None:
    rows = history([100, 101, 99, 100, 101, 100, 99, 100, 101, 100, 108, 109, 108, 100, 101])
    changed = reference_of(rows[12], rows)
    assert changed == Reference(100, good=rows[9], since=rows[10])
    attributes = {
        "run-00009": {"image": f"mnist@sha256:{'a' * 64}"},
        "run-00010": {"image": f"mnist@sha256:{'b' * 64}"},
    }
    assert changed.words(108, attributes) == (
        "+8 % against 100; since 2026-01-11, image: mnist@sha256:aaaaaaaaaaaa… → mnist@sha256:bbbbbbbbbbbb…"
    )
    for row in rows[13:]:
        back = reference_of(row, rows)
        assert back is not None
        assert (back.since, back.level) == (None, 100), row
        assert back.good is not None
        assert back.good.value is not None
        assert back.good.value <= 101


@pytest.mark.parametrize("digits", [None, 0], ids=["any", "whole"])
@pytest.mark.parametrize("after", [2, 3, 5, 9, 12])
@pytest.mark.parametrize("before", [12, 20, 40, 97])
def test_a_large_change_of_noisy_values_is_named_with_its_first_run(
    before: int, after: int, digits: int | None
) -> None:
    for seed in range(20):
        random = Random(f"{before} {after} {seed}")
        values = [100 + 12 * (day >= before) + random.gauss(0, 1) for day in range(before + after)]
        rows = history(values if digits is None else [round(value) for value in values])
        reference = reference_of(rows[-1], rows)
        assert reference is not None
        assert reference.since == rows[before], values


def test_an_accepted_level_is_the_reference_of_later_runs() -> None:
    rows = history([100.0] * 12 + [108.0] * 5)
    accepted = {rows[13].run_key}
    before, after = (reference_of(rows[day], rows, accepted) for day in (13, 16))
    assert before is not None
    assert (before.level, before.since) == (100, rows[12])
    assert after is not None
    assert (after.level, after.since, after.words(108)) == (108, None, "")


@given(st.lists(st.floats(allow_nan=False) | st.none(), max_size=40), st.floats())
def test_any_series_has_a_finite_reference_or_none(values: list[float | None], last: float) -> None:
    rows = history([*values, last])
    reference = reference_of(rows[-1], rows)
    if reference is not None:
        assert abs(reference.level) < float("inf")
        assert "nan" not in reference.words(last if abs(last) < float("inf") else None)


TICKS = (100.0, 101.0, 99.0, 100.0, 101.0, 99.0)


def found(values: list[float], **newest: object) -> tuple[float, str | None, str | None]:
    """The level, the newest run of it, and the first run of the new one, for the newest of some runs."""
    rows = history(values)
    reference = reference_of(replace(rows[-1], **newest), rows)
    assert reference is not None
    good, since = (row and row.run_key.removeprefix("run-000") for row in (reference.good, reference.since))
    return reference.level, good, since


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([100.0, 130.0], (100, "00", None)),
        ([100.0, 100.0, 130.0], (100, "01", None)),
        ([100.0, 100.0, 100.0, 130.0], (100, "02", "03")),
        ([*TICKS, 130.0], (100, "05", "06")),
        ([*TICKS, *TICKS, 130.0, 131.0, 129.0], (100, "11", "12")),
        ([*TICKS, *TICKS, 104.0], (100, "11", None)),
        ([*[100.0] * 40, *[130.0] * 30, *[160.0] * 20], (130, "69", "70")),
        ([*[100.0] * 40, *[130.0] * 30, *[102.0] * 20], (102, "88", None)),
        ([*[100.0] * 40, *[130.0] * 30, *[116.0] * 20], (130, "69", "70")),
        ([*[100.0] * 20, *[130.0] * 20, *[160.0] * 20, *[130.0] * 20], (100, "19", "20")),
        ([100.0 + int(each) for each in "1101120011113453553334"], (101, "11", "13")),
    ],
)
def test_the_reference_is_the_level_before_the_change_that_is_open(
    values: list[float], expected: tuple[float, str | None, str | None]
) -> None:
    assert found(values) == expected


def test_a_change_before_the_newest_hundred_runs_is_no_longer_open() -> None:
    values = [100.0] * 20 + [130.0] * 98
    assert found(values)[:1] == (100,)
    assert found([*values, 130.0])[:1] == (100,)
    assert found([*values, *[130.0] * 3])[:1] == (130,)


def test_runs_of_trials_and_of_failed_jobs_and_later_ones_are_no_reference() -> None:
    rows = [
        point(0, 100.0),
        replace(point(1, 500.0), trial="image"),
        point(2, 500.0, status="failure"),
        point(4, 500.0),
    ]
    reference = reference_of(point(3, 105.0), rows)
    assert reference is not None
    assert (reference.level, reference.good) == (100, rows[0])


def test_without_earlier_runs_the_reference_is_that_of_the_verdict() -> None:
    row = replace(point(3, 105.0), reference=100.0, unit="ms")
    assert reference_of(row, []) == Reference(100.0, unit="ms")


def test_a_failed_run_is_no_good_run_if_another_is_as_near() -> None:
    rows = [*history([100.0, 100.0, 101.0]), point(3, 100.0, "fail")]
    reference = reference_of(point(4, 100.5), rows)
    assert reference is not None
    assert reference.good == rows[1]
    only = [point(3, 100.0, "fail")]
    found = reference_of(point(4, 130.0, "fail"), only)
    assert found is not None
    assert (found.level, found.good) == (100, None)


@pytest.mark.parametrize(
    ("level", "value", "unit", "words"),
    [
        (779.0, 844.4, "ms", "+8.4 % against 779 ms"),
        (100.0, 92.0, "", "-8 % against 100"),
        (-100.0, -92.0, "", "+8 % against -100"),
        (1000.0, 1001.1, "", "+0.11 % against 1,000"),
        (1000.0, 1000.9, "", ""),
        (1000.0, 999.1, "", ""),
        (1000.0, 999.0, "", "-0.1 % against 1,000"),
        (0.0, 5.0, "", "against 0"),
        (0.0, 0.0, "", ""),
        (5e-324, 1e308, "", "against 4.941e-324"),
        (100.0, 2345.0, "", "+2,245 % against 100"),
        (100.0, None, "", ""),
    ],
)
def test_the_words_of_a_change(level: float, value: float | None, unit: str, words: str) -> None:
    assert Reference(level, unit=unit).words(value) == words


def test_the_words_name_the_day_of_the_change_and_what_differs_between_its_sides() -> None:
    good, since = history([100.0, 108.0])
    attributes = {good.run_key: {"image": "a"}, since.run_key: {"image": "b"}}
    assert Reference(100, good, since).words(108, attributes) == "+8 % against 100; since 2026-01-02, image: a → b"
    assert Reference(100, None, since).words(108, attributes) == "+8 % against 100; since 2026-01-02"
    assert Reference(100, good).words(108, attributes) == "+8 % against 100"


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


def test_the_level_that_got_worse_most_counts_and_of_equal_ones_the_first() -> None:
    rows = [row(name, value, "pass", upper=500.0) for name, value in (("a", 110.0), ("b", 120.0), ("c", 120.0))]
    references = {each.metric: Reference(100, since=each) for each in rows}
    assert main_metric(rows, references) == rows[1]
