from __future__ import annotations

import json
import math

from hypothesis import given
from hypothesis import strategies as st

from ml_metrics.alerts.charts import Annotation, Axis, as_svg, metric_chart
from ml_metrics.alerts.charts.frame import rounded
from ml_metrics.core.model import Outcome
from unit.alerts.charts.runs import START, column, run

NUMBERS = st.none() | st.floats(allow_nan=True, allow_infinity=True)
RUNS = st.lists(
    st.builds(run, st.floats(0, 4000), NUMBERS, NUMBERS, NUMBERS, outcome=st.none() | st.sampled_from(Outcome))
)


@given(RUNS, st.sampled_from(Axis))
def test_any_runs_give_a_json_spec_and_a_finite_axis(runs: list[object], axis: Axis) -> None:
    spec = metric_chart("any", runs, axis=axis)  # type: ignore[arg-type]
    json.dumps(spec, allow_nan=False)
    low, high = (param["value"] for param in spec["params"])
    assert math.isfinite(low)
    assert math.isfinite(high)
    assert low < high or axis is Axis.LOG
    assert axis is not Axis.LOG or low > 0


def test_runs_are_drawn_in_order_of_time() -> None:
    spec = metric_chart("x", [run(3, 1.0), run(1, 2.0), run(2, 3.0)])
    assert column(spec, "value") == [2.0, 3.0, 1.0]


def test_a_run_without_a_value_has_a_letter_and_no_point() -> None:
    runs = [run(1, None, outcome=Outcome.NON_FINITE), run(2, None, outcome=Outcome.MISSING), run(3, None), run(4, 1.0)]
    spec = metric_chart("x", runs)
    assert column(spec, "value") == [None, None, None, 1.0]
    svg = as_svg(spec)
    assert [letter for letter in "NM-" if f">{letter}<" in svg] == ["N", "M", "-"]


def test_a_log_axis_drops_zero_and_negative_values() -> None:
    spec = metric_chart("x", [run(1, 0.0), run(2, -1.0), run(3, 10.0), run(4, 1000.0)], axis=Axis.LOG)
    assert column(spec, "value") == [None, None, 10.0, 1000.0]


def test_percent_is_relative_to_the_median_of_counted_runs() -> None:
    runs = [run(1, 50.0), run(2, 50.0, 40.0, 75.0), run(3, 500.0)]
    spec = metric_chart("x", runs, excluded={"run-3"}, axis=Axis.PERCENT)
    assert column(spec, "value") == [100.0, 100.0, 1000.0]
    assert column(spec, "upper") == [None, 150.0, None]


def test_an_open_side_of_the_band_extends_to_the_edge() -> None:
    spec = metric_chart("x", [run(1, 1.0, 0.5, None), run(2, 1.0, 0.5, None)])
    low, high = (param["value"] for param in spec["params"])
    assert set(column(spec, "low", "band")) == {0.5, None}
    assert set(column(spec, "high", "band")) == {rounded(high), None}
    assert low < 0.5


def test_the_band_starts_at_the_first_bound() -> None:
    spec = metric_chart("x", [run(1, 1.0), run(2, 1.0, 0.5), run(3, 1.0, 0.5), run(4, 1.0), run(5, 1.0, 0.6)])
    band = spec["datasets"]["band"][0]
    days = [(at / 1000 - START.timestamp()) / 86400 for at in band["at"]]
    assert days[0] == 2
    assert [low for low in band["low"] if low is not None] == [0.5, 0.5, 0.6, 0.6]
    assert band["low"].count(None) == 2


def test_a_constant_band_is_reduced_to_its_ends() -> None:
    spec = metric_chart("x", [run(day, day % 3, -1.0, 9.0) for day in range(300)])
    assert len(column(spec, "at", "band")) == 3


def test_annotations_are_vertical_lines_with_a_text() -> None:
    spec = metric_chart("x", [run(1, 1.0)], [Annotation(START, "accepted by vera", "accepted")])
    assert spec["datasets"]["notes"][0]["text"] == "accepted by vera"
    assert spec["layer"][-2]["mark"]["type"] == "rule"
    assert len(spec["layer"]) == len(metric_chart("x", [run(1, 1.0)])["layer"]) + 2
