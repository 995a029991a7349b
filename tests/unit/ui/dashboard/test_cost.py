"""The page of what runs cost, and the cost on the page of a run."""

from __future__ import annotations

from collections.abc import Callable

from fastapi.testclient import TestClient

from ml_metrics.core.model import JobStatus
from ml_metrics.warehouse import Warehouse
from unit.ui.dashboard.sample_runs import FAILING, SHIFTED, STEADY, Rights, csv_rows, recorded, run_of

COST = {"chip_hours": 8.0, "cost_usd": 9.6, "cost_productive_usd": 7.5, "cost_stall_usd": 2.1}


def fill(warehouse: Warehouse) -> None:
    warehouse.load_all([recorded(STEADY, day, more=COST) for day in range(10)])
    warehouse.load(recorded(SHIFTED, 1, owner="speech-team"))  # without a cost
    failed = {"chip_hours": 2.0, "cost_usd": 2.4, "cost_productive_usd": 0.4, "cost_outside_log_usd": 2.0}
    warehouse.load(recorded(FAILING, 2, status=JobStatus.FAILURE, owner="speech-team", more=failed))


def test_the_sums_are_those_of_the_last_seven_days_of_readable_tests(
    warehouse: Warehouse, as_user: Callable[..., TestClient]
) -> None:
    fill(warehouse)
    found = as_user().get("/cost?format=json").json()
    assert found["total"]["cost"] == {"USD": "69.60"}
    assert (found["total"]["runs"], found["total"]["runs_without_cost"]) == (9, 1)
    assert found["total"]["reasons"] == {
        "productive": {"USD": "52.50"}, "stall": {"USD": "14.70"}, "failed runs": {"USD": "2.40"},
    }  # fmt: skip
    assert found["before"]["cost"] == {"USD": "28.80"}
    assert {name: bill["cost"] for name, bill in found["by_owner"].items()} == {
        "vision-team": {"USD": "67.20"}, "speech-team": {"USD": "2.40"},
    }  # fmt: skip
    some = as_user(Rights(dags=frozenset({FAILING}))).get("/cost?format=json").json()
    assert some["total"]["cost"] == {"USD": "2.40"}
    assert list(some["by_test"]) == [FAILING]


def test_the_page_and_its_csv(warehouse: Warehouse, as_user: Callable[..., TestClient]) -> None:
    fill(warehouse)
    browser = as_user()
    text = browser.get("/cost?owner=speech-team").text
    assert "2.40 USD" in text
    assert "failed runs" in text
    assert STEADY not in text
    assert "1 of these runs have no cost" in text
    rows = csv_rows(browser, "/cost?format=csv")
    assert [row["cost"] for row in rows].count("9.60") == 7
    assert sum(row["cost"] == "" for row in rows) == 1


def test_a_run_shows_its_cost(warehouse: Warehouse, as_user: Callable[..., TestClient]) -> None:
    warehouse.load(recorded(STEADY, 0, more={**COST, "mfu": 38.25}))
    text = as_user().get(f"/run?run={run_of(STEADY, 0).key}").text
    assert "<dt>cost</dt><dd>9.60 USD</dd>" in text
    assert "<dt>MFU</dt><dd>38.2 %</dd>" in text
