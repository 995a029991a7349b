"""The page of all tests, as JSON and CSV."""

from __future__ import annotations

from datetime import timedelta

import pytest
from fastapi.testclient import TestClient

from unit.dashboard.sample_runs import FAILING, SHIFTED, STEADY, TODAY, csv_rows


def test_all_tests_as_a_document(shown: TestClient) -> None:
    document = shown.get("/?format=json").json()
    tests = {one["test"]: one for one in document["tests"]}
    assert set(tests) == {STEADY, SHIFTED, FAILING}
    assert document["columns"][0] == TODAY.date().isoformat()
    assert len(document["columns"]) == 30
    assert (tests[STEADY]["latest"]["letter"], tests[STEADY]["pass_rate_percent"]) == ("✓", 100)
    assert tests[SHIFTED]["latest"]["letter"] == "M"
    assert tests[SHIFTED]["latest"]["reason"] == "loss_final = 14, must be below 11"
    assert tests[SHIFTED]["pass_rate_percent"] == 80
    assert tests[SHIFTED]["incident_since"] is not None
    assert tests[FAILING]["latest"]["reason"] == "failure: OOMKilled"
    assert tests[FAILING]["cells"][TODAY.date().isoformat()]["letters"] == {"F": 1}
    assert tests[FAILING]["last_good"] == (TODAY - timedelta(days=1)).isoformat()


def test_all_tests_as_rows(shown: TestClient) -> None:
    found = {row["test"]: row for row in csv_rows(shown, "/?format=csv")}
    assert found[FAILING]["latest"] == "F"
    assert found[FAILING][TODAY.date().isoformat()] == "F"
    assert found[SHIFTED]["owner"] == "speech-team"


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("q=SHIFT", {SHIFTED}),
        ("q=tf+fail", {FAILING}),
        ("owner=speech-team", {SHIFTED}),
        ("only=failing", {SHIFTED, FAILING}),
        ("only=unacknowledged", {SHIFTED}),
        ("prefix=pt", {STEADY}),
        ("framework=tf&only=failing", {SHIFTED, FAILING}),
        ("accelerator=none", set()),
    ],
)
def test_filters(shown: TestClient, query: str, found: set[str]) -> None:
    assert {one["test"] for one in shown.get(f"/?format=json&{query}").json()["tests"]} == found
