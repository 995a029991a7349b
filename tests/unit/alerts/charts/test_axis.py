from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ml_metrics.alerts.charts import Axis, as_svg, curve_chart, metric_chart, run_curves_chart
from ml_metrics.alerts.charts.frame import domain_of
from ml_metrics.core.model import TagCurve
from unit.alerts.charts.runs import run


def test_a_distant_bound_does_not_flatten_the_values() -> None:
    low, high = domain_of([run(1, 1.0, 0.9, 1e9), run(2, 1.1, 0.9, 1e9)], Axis.LINEAR)
    assert low < 0.9
    assert high < 2


def test_the_axis_is_finite_for_constant_values() -> None:
    for value in (0.0, 5.0, -1e299, 1e-300):
        low, high = domain_of([run(1, value), run(2, value)], Axis.LINEAR)
        assert low < value < high


def labels_of(spec: dict[str, Any]) -> list[list[str]]:
    """The labels of each axis of a drawn chart."""
    svg = re.sub(r"&#x?\w+;|&\w+;", " ", as_svg({**spec, "width": 600}))
    axes = re.findall(r"role-axis-label[^>]*>(.*?)</g>", svg, re.DOTALL)
    return [[text for text in re.findall(r"<text[^>]*>([^<]*)</text>", axis) if text] for axis in axes]


SPANS = st.sampled_from([0.02, 1, 30, 3600, 86_400, 20 * 86_400, 400 * 86_400, 3000 * 86_400])
LEVELS = st.sampled_from([0.0, 1e-9, 1.0, 999.0, 12_345.0, 1.2e8, 3e10, 5e15])


@settings(max_examples=25, deadline=None)
@given(
    days=st.integers(400, 80_000), seconds=SPANS, level=LEVELS,
    size=st.floats(1e-7, 2), unit=st.sampled_from(["", "B", "s"]),
)  # fmt: skip
def test_no_two_labels_of_an_axis_are_alike(days: int, seconds: float, level: float, size: float, unit: str) -> None:
    first = datetime(1970, 1, 1, 13, 7, tzinfo=UTC) + timedelta(days=days)
    points = [
        replace(run(1, level + (level or 1) * size * share), timestamp=first + timedelta(seconds=seconds * share),
                unit=unit, lower=None, upper=None)
        for share in (0, 0.3, 0.6, 1)
    ]  # fmt: skip
    for labels in labels_of(metric_chart("", points)):
        assert labels
        assert len(set(labels)) == len(labels), labels


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**9), st.integers(1, 10**6), LEVELS, st.floats(1e-7, 2))
def test_no_two_labels_of_a_curve_are_alike(first: int, steps: int, level: float, size: float) -> None:
    values = (level, level + (level or 1) * size)
    for spec in (curve_chart(TagCurve("loss", (first, first + steps), values)),
                 run_curves_chart({"a": [(first, values[0]), (first + steps, values[1])]})):  # fmt: skip
        for labels in labels_of(spec):
            assert len(set(labels)) == len(labels), labels
