"""The page of the fleet: what runs cost, and nodes; and the cost on the page of a run."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest
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
    found = as_user().get("/fleet?format=json").json()
    assert found["total"]["cost"] == {"USD": "69.60"}
    assert (found["total"]["runs"], found["total"]["runs_without_cost"]) == (9, 1)
    assert found["total"]["reasons"] == {
        "productive": {"USD": "52.50"}, "stall": {"USD": "14.70"}, "failed runs": {"USD": "2.40"},
    }  # fmt: skip
    assert found["before"]["cost"] == {"USD": "28.80"}
    assert {name: bill["cost"] for name, bill in found["by_owner"].items()} == {
        "vision-team": {"USD": "67.20"}, "speech-team": {"USD": "2.40"},
    }  # fmt: skip
    some = as_user(Rights(dags=frozenset({FAILING}))).get("/fleet?format=json").json()
    assert some["total"]["cost"] == {"USD": "2.40"}
    assert list(some["by_test"]) == [FAILING]


def test_the_page_and_its_csv(warehouse: Warehouse, as_user: Callable[..., TestClient]) -> None:
    fill(warehouse)
    browser = as_user()
    text = browser.get("/fleet?owner=speech-team").text
    assert "2.40 USD" in text
    assert "failed runs" in text
    assert STEADY not in text
    assert "1 of these runs have no cost" in text
    days = re.findall(
        r"<title>([^<]*)</title><rect class=\"lost\" [^>]* height=\"([0-9.]+)\"", browser.get("/fleet").text
    )
    assert len(days) == 7
    assert {height for text, height in days if "USD, not" in text} == {"17.5", "37.5"}, days
    rows = csv_rows(browser, "/fleet?format=csv")
    assert [row["cost"] for row in rows].count("9.60") == 7
    assert sum(row["cost"] == "" for row in rows) == 1


def test_a_run_shows_its_cost(warehouse: Warehouse, as_user: Callable[..., TestClient]) -> None:
    warehouse.load(recorded(STEADY, 0, more={**COST, "mfu": 38.25}))
    text = as_user().get(f"/run?run={run_of(STEADY, 0).key}").text
    assert "<dt>cost</dt><dd>9.60 USD</dd>" in text
    assert "<dt>MFU</dt><dd>38.2 %</dd>" in text


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("/cost?since=2026-11-16&until=2026-11-22", "fleet?since=2026-11-16&until=2026-11-22"),
        ("/nodes?metric=x", "fleet?view=nodes&metric=x"),
        ("/experiments", "compare?view=experiments&"),
    ],
)
def test_addresses_in_old_messages_lead_to_the_page(browser: TestClient, old: str, new: str) -> None:
    answer = browser.get(old)
    assert (answer.status_code, answer.headers["location"]) == (308, new)


TEST, SLOW = "tf-on-nodes", "<node-2>"


@pytest.fixture
def on_nodes(warehouse: Warehouse) -> Warehouse:
    """A test on four nodes in turn, one of which takes 10 % longer."""
    random, records = Random(1), []
    for night in range(48):
        node = SLOW if night % 4 == 0 else f"node-{night % 3}"
        value = 10 * random.gauss(1, 0.005) * (1.1 if node == SLOW else 1)
        one = recorded(TEST, night, value, metric="step_time_p50")
        records.append(replace(one, metadata={"node": node}))
    warehouse.load_all(records)
    return warehouse


@pytest.mark.usefixtures("on_nodes")
def test_the_page(as_user: Callable[..., TestClient]) -> None:
    browser = as_user()
    document = browser.get("/fleet?view=nodes&format=json").json()
    assert [one["node"] for one in document["nodes"] if one["slow"]] == [SLOW]
    rows = csv_rows(browser, "/fleet?view=nodes&format=csv")
    assert next(row["node"] for row in rows) == SLOW
    assert len(rows) == 4
    page = browser.get("/fleet?view=nodes").text
    assert "&lt;node-2&gt;" in page
    assert SLOW not in page
    assert browser.get("/fleet?view=nodes&format=json&metric=none").json()["runs"] == 0
    assert browser.get("/fleet?view=nodes&since=2026-02-30").status_code == 400
    other = as_user(Rights(frozenset({"another"})))
    assert other.get("/fleet?view=nodes&format=json").json()["nodes"] == []
    assert "nodes cannot be compared" in other.get("/fleet?view=nodes").text
    assert f"test?test={TEST}" in page


def test_nodes_with_one_visit_have_no_interval(warehouse: Warehouse, as_user: Callable[..., TestClient]) -> None:
    records = []
    for night in range(12):
        one = recorded(TEST, night, 10 + night % 3, metric="step_time_p50")
        records.append(replace(one, metadata={"node": "first" if night < 6 else "second"}))
    warehouse.load_all([*records, recorded(TEST, 12, 10, metric="step_time_p50")])
    nodes = as_user().get("/fleet?view=nodes&format=json").json()["nodes"]
    assert [(one["low"], one["high"], one["slow"]) for one in nodes] == [(None, None, False)] * 2
    page = as_user().get("/fleet?view=nodes").text
    assert "unknown: too few visits" in page
    assert "Left out: 1 run whose node is not recorded." in page
