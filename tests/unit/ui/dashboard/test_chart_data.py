"""The curves of a test, and the data of a page's charts: shared shapes, and the numbers of each chart."""

from __future__ import annotations

import json

from fastapi.testclient import TestClient

from ml_metrics.alerts.charts import metric_chart
from ml_metrics.core.model import JobStatus, StoredMetric
from ml_metrics.ui.dashboard.one_test_page import charts_script, time_parts
from ml_metrics.warehouse import Warehouse
from unit.ui.dashboard.sample_runs import TODAY, recorded


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


def test_custom_events_are_a_part_of_the_time_once() -> None:
    percent = {
        "goodput": 60.0,
        "badput_custom_badput_events_percent": 25.0,
        "badput_custom_badput_events_eval_percent": 13.0,
        "badput_custom_badput_events_check_percent": 8.0,
        "badput_other_percent": 15.0,
        "badput_stall_percent": 0.0,
        "badput_data_loading_async_percent": 13.0,
    }
    metrics = [StoredMetric("run", TODAY, name, value, JobStatus.SUCCESS, None) for name, value in percent.items()]
    parts = {"custom_badput_events_eval": 13.0, "custom_badput_events_check": 8.0, "custom_badput_events": 4.0}
    assert time_parts(metrics) == {"run": {"productive": 60.0, **parts, "other": 15.0}}
