from __future__ import annotations

import struct

import pytest

from ml_metrics.alerts.charts import Annotation, Axis, as_svg, metric_chart
from ml_metrics.alerts.charts.frame import as_png
from ml_metrics.core.model import Outcome
from unit.alerts.charts.runs import run

RUNS = [run(day, 100 + day % 7, 90, 105 if day > 3 else None, outcome=Outcome.PASS) for day in range(20)]


@pytest.mark.parametrize("axis", Axis)
@pytest.mark.parametrize("count", [0, 1, 2, 20])
def test_a_png_has_two_pixels_per_unit(axis: Axis, count: int) -> None:
    png = as_png(metric_chart("accuracy", RUNS[:count], axis=axis, width=300, height=100))
    assert png.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", png[16:24])
    assert width >= 600
    assert height >= 200


def test_the_svg_shows_runs_title_and_annotations() -> None:
    note = Annotation(RUNS[5].timestamp, "accepted", "accepted")
    svg = as_svg(metric_chart("accuracy", RUNS, [note]))
    assert svg.count('aria-roledescription="point"') == len(RUNS)
    assert "accuracy" in svg
    assert ">A<" in svg


def test_verdicts_differ_by_shape_and_not_only_by_colour() -> None:
    def mark(outcome: Outcome) -> str:
        svg = as_svg(metric_chart("", [run(1, 1.0, outcome=outcome)]))
        return svg.split('aria-roledescription="point"')[1].split('d="')[1].split('"')[0]

    assert mark(Outcome.PASS) != mark(Outcome.FAIL) != mark(Outcome.INSUFFICIENT_DATA)


def test_a_title_is_escaped() -> None:
    svg = as_svg(metric_chart("</title><script>alert(1)</script>", RUNS))
    assert "<script" not in svg
