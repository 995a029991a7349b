"""Numbers, bounds and durations as text."""

from __future__ import annotations

from ml_metrics.dashboard.formatting import bounds_text, duration_text, number_text


def test_numbers_and_durations() -> None:
    assert [duration_text(each) for each in (None, 0.25, 59, 61, 3700, 90_000)] == [
        "-", "0.25 s", "59 s", "1 min 1 s", "1 h 1 min", "1 d 1 h"
    ]  # fmt: skip
    assert [number_text(each) for each in (None, 0.1 + 0.2, 1e-9)] == ["-", "0.3", "1e-09"]


def test_bounds_show_an_open_side_as_an_infinity() -> None:
    bounds = [(None, 1.24), (0.5, None), (0.5, 1.0), (None, None)]
    assert [bounds_text(*each) for each in bounds] == ["(-inf, 1.24)", "(0.5, inf)", "(0.5, 1)", "-"]
