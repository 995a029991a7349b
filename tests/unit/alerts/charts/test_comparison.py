from __future__ import annotations

from ml_metrics.alerts.charts import Axis, as_svg, comparison_chart
from unit.alerts.charts.runs import run


def test_many_tests_are_all_distinguishable() -> None:
    lines = {f"test-{number}": [run(1, number), run(2, number + 1)] for number in range(20)}
    spec = comparison_chart(lines)
    colours = spec["encoding"]["color"]["scale"]["range"]
    shapes = spec["layer"][1]["encoding"]["shape"]["scale"]["range"]
    assert len(set(zip(colours, shapes, strict=True))) == 20
    assert as_svg(spec).count('aria-roledescription="point"') == 40


def test_values_outside_the_axis_are_dropped() -> None:
    lines = {"a": [run(1, None), run(2, 0.0), run(3, 5.0)]}
    assert len(comparison_chart(lines)["datasets"]["values"]) == 2
    assert len(comparison_chart(lines, axis=Axis.LOG)["datasets"]["values"]) == 1
    assert "<svg" in as_svg(comparison_chart({}))
