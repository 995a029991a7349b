"""A page's content as JSON and CSV."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from ml_metrics.dashboard.export import as_csv, as_json, as_script_json


def test_a_name_cannot_end_a_script_element() -> None:
    text = as_script_json({"</script>": float("nan")})
    assert "<" not in text
    assert json.loads(text) == {"</script>": None}


def test_json_has_null_for_non_finite_numbers_and_text_for_times() -> None:
    content = {"value": [float("inf"), 1.5], "at": datetime(2026, 3, 31, tzinfo=UTC)}
    assert json.loads(as_json(content)) == {"value": [None, 1.5], "at": "2026-03-31T00:00:00+00:00"}


def test_csv_cells_are_no_formulas() -> None:
    assert as_csv([["=1+1", "@x", "a", -1.5]]) == "'=1+1,'@x,a,-1.5\r\n"
