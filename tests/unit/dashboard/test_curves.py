"""The curves of a test."""

from __future__ import annotations

from fastapi.testclient import TestClient

from ml_metrics.warehouse import Warehouse
from unit.dashboard.sample_runs import recorded


def test_broken_metrics_come_first(browser: TestClient, warehouse: Warehouse) -> None:
    warehouse.load(recorded("t", 1, metric="z_final", value=99.0))
    warehouse.load(recorded("t", 0, metric="y_final", value=99.0, more={"a_final": 1.0}))
    metrics = [one["metric"] for one in browser.get("/test?test=t&format=json").json()["metrics"]]
    assert metrics == ["y_final", "z_final", "a_final"]
