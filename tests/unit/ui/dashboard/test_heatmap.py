"""The cells and columns of the heatmap."""

from __future__ import annotations

from datetime import timedelta

from fastapi.testclient import TestClient

from ml_metrics.core.model import JobStatus
from ml_metrics.warehouse import Warehouse
from unit.ui.dashboard.sample_runs import SHIFTED, TODAY, recorded


def test_a_cell_has_all_runs_of_its_day_worst_first(browser: TestClient, warehouse: Warehouse) -> None:
    warehouse.load_all([recorded("hourly", hour / 24) for hour in range(6)])
    warehouse.load(recorded("hourly", 0.01, status=JobStatus.TIMEOUT))
    (test,) = browser.get("/?format=json").json()["tests"]
    assert test["cells"][TODAY.date().isoformat()]["letters"] == {"T": 1, "✓": 6}
    assert "T1✓6" in browser.get("/").text


def test_days_are_days_in_the_time_zone(browser: TestClient, warehouse: Warehouse) -> None:
    warehouse.load(recorded("late", -0.49))  # 23:46 UTC
    query = f"since={TODAY.date()}&until={TODAY.date() + timedelta(days=1)}&format=json"
    (utc,) = browser.get(f"/?{query}").json()["tests"]
    (tokyo,) = browser.get(f"/?{query}&tz=Asia/Tokyo").json()["tests"]
    assert set(utc["cells"]) == {TODAY.date().isoformat()}
    assert set(tokyo["cells"]) == {(TODAY.date() + timedelta(days=1)).isoformat()}


def test_columns_may_be_runs(shown: TestClient) -> None:
    document = shown.get("/?by=runs&format=json").json()
    assert document["columns"] == list(range(30))
    shifted = next(one for one in document["tests"] if one["test"] == SHIFTED)
    assert [shifted["cells"][str(ago)]["letters"] for ago in (0, 3, 4)] == [{"M": 1}, {"M": 1}, {"✓": 1}]
