from __future__ import annotations

from ml_metrics.charts import PRODUCTIVE, as_svg, goodput_chart
from unit.charts.runs import START


def test_productive_time_is_the_first_of_the_stack() -> None:
    runs = [("run-1", START, {"checkpoint": 10.0, PRODUCTIVE: 90.0, "idle": 0.0}), ("run-2", START, {PRODUCTIVE: 99.0})]
    spec = goodput_chart(runs)
    rows = [(row["run"], row["kind"], row["percent"]) for row in spec["datasets"]["times"]]
    assert rows == [("run-1", PRODUCTIVE, 90), ("run-1", "checkpoint", 10), ("run-2", PRODUCTIVE, 99)]
    assert as_svg(spec).count('aria-roledescription="bar"') == 3
