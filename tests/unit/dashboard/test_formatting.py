"""Numbers, bounds and durations as text, JSON and CSV."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from ml_metrics.dashboard.formatting import (
    as_csv,
    as_json,
    as_script_json,
    bounds_text,
    duration_text,
    number_text,
)


def test_numbers_and_durations() -> None:
    assert [duration_text(each) for each in (None, 0.25, 59, 61, 3700, 90_000)] == [
        "-", "0.25 s", "59 s", "1 min 1 s", "1 h 1 min", "1 d 1 h"
    ]  # fmt: skip
    assert [number_text(each) for each in (None, 0.1 + 0.2, 1e-9)] == ["-", "0.3", "1e-09"]


def test_bounds_show_an_open_side_as_an_infinity() -> None:
    bounds = [(None, 1.24), (0.5, None), (0.5, 1.0), (None, None)]
    assert [bounds_text(*each) for each in bounds] == ["(-inf, 1.24)", "(0.5, inf)", "(0.5, 1)", "-"]


def test_a_name_cannot_end_a_script_element() -> None:
    text = as_script_json({"</script>": float("nan")})
    assert "<" not in text
    assert json.loads(text) == {"</script>": None}


def test_json_has_null_for_non_finite_numbers_and_text_for_times() -> None:
    content = {"value": [float("inf"), 1.5], "at": datetime(2026, 3, 31, tzinfo=UTC)}
    assert json.loads(as_json(content)) == {"value": [None, 1.5], "at": "2026-03-31T00:00:00+00:00"}


def test_csv_cells_are_no_formulas() -> None:
    assert as_csv([["=1+1", "@x", "a", -1.5]]) == "'=1+1,'@x,a,-1.5\r\n"
