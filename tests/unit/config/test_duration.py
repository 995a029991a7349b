"""Durations in test files."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ml_metrics.config.times import parse_duration


@pytest.mark.parametrize(
    ("written", "seconds"),
    [("1h", 3600), ("90m", 5400), ("1h30m", 5400), ("1h 30m", 5400), (3600, 3600), (0.5, 0.5), ("400ms", 0.4)],
)
def test_accepted_durations(written: object, seconds: float) -> None:
    assert parse_duration(written) == timedelta(seconds=seconds)


@given(st.integers(0, 30), st.integers(0, 23), st.integers(0, 59), st.integers(1, 59))
def test_parts_are_added(days: int, hours: int, minutes: int, seconds: int) -> None:
    expected = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
    assert parse_duration(f"{days}d{hours}h{minutes}m{seconds}s") == expected


@given(st.one_of(st.text(), st.floats(), st.integers(), st.booleans(), st.none(), st.lists(st.integers())))
def test_anything_else_is_a_value_error(value: object) -> None:
    try:
        assert parse_duration(value) > timedelta(0)
    except ValueError as error:
        assert re.search("is not a duration|is out of range", str(error))


@pytest.mark.parametrize(
    ("written", "meant"),
    [("1 hor", "1h"), ("2 hours", "2h"), ("1 hour and 30 minutes", "1h30m"), ("45 MIN", "45m"), ("10 secs", "10s")],
)
def test_a_near_miss_gets_a_suggestion(written: str, meant: str) -> None:
    with pytest.raises(ValueError, match=f"did you mean '{meant}'"):
        parse_duration(written)
