"""The page that compares tests and metrics."""

from __future__ import annotations

from collections import Counter

from fastapi.testclient import TestClient

from unit.dashboard.sample_runs import FAILING, SHIFTED, STEADY, csv_rows


def test_patterns_select_tests_and_metrics(shown: TestClient) -> None:
    document = shown.get("/compare?tests=tf-*,pt-steady&metrics=loss_*&format=json").json()
    assert set(document["tests"]) == {SHIFTED, FAILING, STEADY}
    counted = Counter(one["test"] for one in document["values"])
    assert counted == {SHIFTED: 20, STEADY: 20, FAILING: 2}
    assert len(csv_rows(shown, "/compare?tests=tf-shifted&metrics=*&format=csv")) == 20
    assert "No tests that you may see match nothing." in shown.get("/compare?tests=nothing").text
