"""Between which levels a reference is chosen, at both sides of each limit, and its words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ml_metrics.core.model import Outcome
from ml_metrics.judge import Reference, reference_of
from unit.judge.cases import history, point

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


def test_runs_that_ended_at_the_same_time_are_ordered_by_key() -> None:
    rows = [point(1, value, run=name) for name, value in (("a", 10.0), ("c", 30.0))]
    reference = reference_of(point(1, 20.0, run="b"), rows)
    assert reference is not None
    assert (reference.level, reference.good) == (10, rows[0])


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
        (100.0, 2345.0, "", "+2.24e+03 % against 100"),
        (100.0, None, "", ""),
    ],
)
def test_the_words_of_a_change(level: float, value: float | None, unit: str, words: str) -> None:
    assert Reference(level, unit=unit).words(value) == words


def test_the_words_name_the_day_of_the_change_and_what_differs_between_its_sides() -> None:
    good, since = history([100.0, 108.0])
    attributes = {good.run_key: {"image": "a"}, since.run_key: {"image": "b"}}
    assert Reference(100, good, since).words(108, attributes) == "+8 % against 100; since 2026-01-02, image: a -> b"
    assert Reference(100, None, since).words(108, attributes) == "+8 % against 100; since 2026-01-02"
    assert Reference(100, good).words(108, attributes) == "+8 % against 100"


@pytest.mark.parametrize(("baseline", "level"), [(100.0, 100.0), (102.9, 102.9), (103.1, 100.0), (110.0, 100.0)])
def test_a_baseline_that_runs_of_the_new_level_have_moved_is_no_reference(baseline: float, level: float) -> None:
    """By more than a tenth of the change: then it is the level before the change."""
    assert found([*[100.0] * 20, *[130.0] * 4], outcome=Outcome.FAIL, reference=baseline)[0] == level
