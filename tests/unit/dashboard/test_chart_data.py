"""The data of a page's charts: shared shapes, and the numbers of each chart."""

from __future__ import annotations

from ml_metrics.charts import metric_chart
from ml_metrics.dashboard.chart_data import charts_data
from ml_metrics.model import JobStatus, StoredMetric
from unit.dashboard.sample_runs import TODAY


def test_charts_of_one_kind_share_a_shape() -> None:
    specs = [metric_chart("", [StoredMetric("0", TODAY, "m", value, JobStatus.SUCCESS, None)]) for value in (1.0, 2.0)]
    data = charts_data([(f"chart-{index}", spec) for index, spec in enumerate(specs)], {"0": "run?run=key"})
    assert len(data["shapes"]) == 1
    assert [chart["shape"] for chart in data["charts"]] == [0, 0]
    assert [chart["datasets"]["points"][0]["value"] for chart in data["charts"]] == [[1.0], [2.0]]
    assert data["charts"][0]["params"] != data["charts"][1]["params"]
    assert "datasets" not in data["shapes"][0]
