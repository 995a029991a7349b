"""Numbers with their units."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ml_metrics.core.units import duration, interval, quantities, quantity, readable


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (3.09474e9, "B", "3.09 GB"), (720, "s", "12 min"), (90, "s", "90 s"), (0.0123, "s", "12.3 ms"),
        (999, "B", "999 B"),
        (7200, "s", "2 h"), (200_000, "s", "2.31 d"), (0, "s", "0 s"), (97.2534, "%", "97.3 %"),
        (-3.1e9, "B", "-3.1 GB"),
        (1234.5, "tokens/s", "1,234 tokens/s"), (0.961234567, "", "0.961235"), (3.09474e9, "", "3.09474e+09"),
        (math.inf, "s", "inf"), (None, "s", "-"), (1e300, "B", "1e+285 PB"), (5e-324, "s", "4.94e-324 s"),
    ],
)  # fmt: skip
def test_a_number_with_its_unit(value: float | None, unit: str, text: str) -> None:
    assert quantity(value, unit) == text


def test_numbers_side_by_side_have_one_scale_and_differ_where_they_differ() -> None:
    assert quantities([3.0912e9, 3.0914e9], "B") == ["3.0912 GB", "3.0914 GB"]
    assert quantities([59.0, 7200.0], "s") == ["0.0164 h", "2 h"]
    assert quantities([0.96123451, 0.96123452]) == ["0.96123451", "0.96123452"]


@given(st.lists(st.floats(), max_size=4), st.sampled_from(["", "s", "B", "%", "tokens/s"]))
def test_different_numbers_have_different_texts(values: list[float], unit: str) -> None:
    shown = quantities(values, unit)
    assert len(shown) == len(values)
    if unit in {"", "%"}:  # a scaled number may be rounded
        finite = [value for value in values if math.isfinite(value)]
        assert len({*quantities(finite, unit)}) == len({*finite})


def test_bounds_in_words() -> None:
    bounds = [(None, 1.24), (0.5, None), (3e9, 3.2e9), (None, None), (-math.inf, math.inf), (-math.inf, 720)]
    units = ["", "%", "B", "s", "s", "s"]
    texts = ["below 1.24", "above 0.5 %", "from 3 GB to 3.2 GB", "-", "-", "below 12 min"]
    assert [interval(*each, unit) for each, unit in zip(bounds, units, strict=True)] == texts
    inclusive = [interval(*each, inclusive=True) for each in ((None, 2), (0.76, None), (2, 2), (1, 2))]
    assert inclusive == ["at most 2", "at least 0.76", "2", "from 1 to 2"]


def test_numbers_of_a_headline_are_short_and_told_apart() -> None:
    assert readable([0.101217, 1234567.0, None]) == ["0.1012", "1,234,567", "-"]
    assert readable([0.96001, 0.96]) == ["0.96001", "0.96"]
    assert readable([3.09e9], "B") == ["3.09 GB"]


def test_a_duration_is_as_exact_as_people_need_it() -> None:
    spans = (None, 0, 0.25, 45.3, 59.6, 248, 7200, 12_000, 90_000, 345_600, 363_600)
    texts = "-; 0 s; 0.25 s; 45 s; 1 min; 4 min 8 s; 2 h; 3 h 20 min; 25 h; 4 days; 4 days 5 h"
    assert "; ".join(map(duration, spans)) == texts
