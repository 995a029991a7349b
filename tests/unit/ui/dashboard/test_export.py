"""A page's content as JSON and CSV."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st

from ml_metrics.ui.dashboard.page import as_csv, as_json, as_script_json
from ml_metrics.warehouse import Warehouse
from unit.ui.dashboard.sample_runs import recorded, run_of


def test_a_name_cannot_end_a_script_element() -> None:
    text = as_script_json({"</script>": float("nan")})
    assert "<" not in text
    assert json.loads(text) == {"</script>": None}


def test_json_has_null_for_non_finite_numbers_and_text_for_times() -> None:
    content = {"value": [float("inf"), 1.5], "at": datetime(2026, 3, 31, tzinfo=UTC)}
    assert json.loads(as_json(content)) == {"value": [None, 1.5], "at": "2026-03-31T00:00:00+00:00"}


@pytest.mark.parametrize("sign", ["=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20", "\ufe66"])
@pytest.mark.parametrize(
    "before", ["", " ", "\n", "\r\n", "\t", "\x00", "\u200b", "\ufeff", "\xa0", '"', "name;", "x\n ", "x\t"]
)
def test_a_formula_is_found_behind_what_is_not_shown(before: str, sign: str) -> None:
    ((cell,),) = csv.reader(io.StringIO(as_csv([[f"{before}{sign}cmd"]]), newline=""))
    parts = re.split(r"[;\t\r\n]", cell)
    assert not any(re.match(rf"[\s\x00\u200b\ufeff\"]*{re.escape(sign)}", part) for part in parts)
    assert cell.replace("'", "") == f"{before}{sign}cmd"


@pytest.mark.parametrize(
    "text", ["accuracy_final", "within (-inf, 0.9)", "mean - 4 sd", "a@example.com", "x/y-z; 5", "√ö"]
)
def test_other_cells_stay_as_they_are(text: str) -> None:
    assert list(csv.reader([as_csv([[text]])])) == [[text]]


@given(st.text(alphabet=st.sampled_from("=+-@;\t\r\n \"',a\u200b\uff1d"), max_size=12))
def test_no_cell_of_any_text_begins_with_a_formula(text: str) -> None:
    for separator in (",", ";", "\t"):
        for row in csv.reader(io.StringIO(as_csv([["head", text]]), newline=""), delimiter=separator):
            assert not any(re.match("[=+@\\-\uff1d]", cell.lstrip(" \u200b\t\r\n")) for cell in row)


def test_json_has_numbers_also_as_the_pages_show_them(browser: TestClient, warehouse: Warehouse) -> None:
    for day, value in enumerate((0.8447, *[0.779] * 9)):
        one = recorded("t", day, value, upper=0.8, metric="step_time_p50")
        warehouse.load(replace(one, metrics=tuple(replace(row, unit="s", reference=0.779) for row in one.metrics)))

    def shown(page: str, name: str = "metrics") -> dict[str, str]:
        (found, *_) = browser.get(f"{page}&format=json").json()[name]
        return dict(found["shown"])

    own = {"value": "845 ms", "bounds": "below 800 ms", "verdict": "fail"}
    assert shown("/test?test=t") == own
    assert shown(f"/run?run={run_of('t', 0).key}") == {**own, "change": "+8.43 %"}
    assert shown("/compare?tests=t&metrics=*", "values")["value"] in {"845 ms", "779 ms"}
    two = shown("/compare?test=t")
    assert (two["base"], two["candidate"], two["change"]) == ("779 ms", "845 ms", "+8.43 %")
