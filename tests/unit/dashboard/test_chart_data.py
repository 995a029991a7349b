"""The curves of a test, and the data of a page's charts: shared shapes, and the numbers of each chart."""

from __future__ import annotations

import json

from fastapi.testclient import TestClient

from ml_metrics.charts import metric_chart
from ml_metrics.dashboard.chart_data import charts_script
from ml_metrics.model import JobStatus, StoredMetric
from ml_metrics.warehouse import Warehouse
from unit.dashboard.sample_runs import TODAY, recorded


def test_charts_of_one_kind_share_a_shape() -> None:
    specs = [metric_chart("", [StoredMetric("0", TODAY, "m", value, JobStatus.SUCCESS, None)]) for value in (1.0, 2.0)]
    data = json.loads(
        charts_script([(f"chart-{index}", spec) for index, spec in enumerate(specs)], {"0": "run?run=key"})
    )
    assert len(data["shapes"]) == 1
    assert [chart["shape"] for chart in data["charts"]] == [0, 0]
    assert [chart["datasets"]["points"][0]["value"] for chart in data["charts"]] == [[1.0], [2.0]]
    assert data["charts"][0]["params"] != data["charts"][1]["params"]
    assert "datasets" not in data["shapes"][0]


def test_broken_metrics_come_first(browser: TestClient, warehouse: Warehouse) -> None:
    warehouse.load(recorded("t", 1, metric="z_final", value=99.0))
    warehouse.load(recorded("t", 0, metric="y_final", value=99.0, more={"a_final": 1.0}))
    metrics = [one["metric"] for one in browser.get("/test?test=t&format=json").json()["metrics"]]
    assert metrics == ["y_final", "z_final", "a_final"]
