from __future__ import annotations

import json
import math
import re
import struct
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ml_metrics.alerts.charts import (
    Annotation,
    Axis,
    as_svg,
    comparison_chart,
    curve_chart,
    metric_chart,
    run_curves_chart,
)
from ml_metrics.alerts.charts.frame import as_png, domain_of, rounded
from ml_metrics.alerts.charts.metric import mail_chart
from ml_metrics.core.model import JobStatus, Outcome, StoredMetric, TagCurve
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


def test_a_run_without_a_value_has_a_letter_and_no_point() -> None:
    runs = [run(1, None, outcome=Outcome.NON_FINITE), run(2, None, outcome=Outcome.MISSING), run(3, None), run(4, 1.0)]
    spec = metric_chart("x", runs)
    assert column(spec, "value") == [None, None, None, 1.0]
    svg = as_svg(spec)
    assert [letter for letter in "NM-" if f">{letter}<" in svg] == ["N", "M", "-"]


def test_percent_is_relative_to_the_median_of_counted_runs() -> None:
    runs = [run(1, 50.0), run(2, 50.0, 40.0, 75.0), run(3, 500.0)]
    spec = metric_chart("x", runs, excluded={"run-3"}, axis=Axis.PERCENT)
    assert column(spec, "value") == [100.0, 100.0, 1000.0]
    assert column(spec, "upper") == [None, 150.0, None]


def test_runs_in_another_unit_are_drawn_in_the_newest() -> None:
    runs = [*(replace(run(n, 848.0 + n, 800.0, 900.0), unit="ms") for n in range(3)), run(3, None, upper=900.0)]
    runs[3] = replace(runs[3], unit="ms")
    runs.append(replace(run(4, 0.85, 0.8, 0.9), unit="s"))
    spec = metric_chart("x", runs)
    assert column(spec, "value") == pytest.approx([0.848, 0.849, 0.85, None, 0.85])
    assert column(spec, "upper") == pytest.approx([0.9] * 5)
    assert [one["value"] for one in mail_chart(runs)["datasets"]["runs"]] == pytest.approx([0.848, 0.849, 0.85, 0.85])
    compared = comparison_chart({"a": runs, "b": [runs[0]]})["datasets"]["values"]
    assert [one["value"] for one in compared] == pytest.approx([0.848, 0.849, 0.85, 0.85, 848])


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


def test_a_distant_bound_does_not_flatten_the_values() -> None:
    low, high = domain_of([run(1, 1.0, 0.9, 1e9), run(2, 1.1, 0.9, 1e9)], Axis.LINEAR)
    assert low < 0.9
    assert high < 2


def test_the_axis_is_finite_for_constant_values() -> None:
    for value in (0.0, 5.0, -1e299, 1e-300):
        low, high = domain_of([run(1, value), run(2, value)], Axis.LINEAR)
        assert low < value < high


@pytest.mark.parametrize(("axis", "limits"), [(Axis.LINEAR, (0.994, 1.006)), (Axis.LOG, (10**-0.018, 10**0.018))])
def test_the_axis_of_a_chart_without_values_is_about_one(axis: Axis, limits: tuple[float, float]) -> None:
    assert domain_of([run(1, math.nan)], axis) == pytest.approx(limits)


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


@pytest.mark.parametrize(
    ("unit", "ends"), [("", "0"), ("img", "0 img"), ("step", "0 step"), ("steps", "0"), ("B", " kB"), ("s", "0 s")]
)
def test_the_labels_of_values_have_a_short_unit(unit: str, ends: str) -> None:
    _, values = labels_of(metric_chart("", [replace(run(day, 1000 * day), unit=unit) for day in range(1, 4)]))
    assert {one.endswith(ends) for one in values} == {True}


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**9), st.integers(1, 10**6), LEVELS, st.floats(1e-7, 2))
def test_no_two_labels_of_a_curve_are_alike(first: int, steps: int, level: float, size: float) -> None:
    values = (level, level + (level or 1) * size)
    for spec in (curve_chart(TagCurve("loss", (first, first + steps), values)),
                 run_curves_chart({"a": [(first, values[0]), (first + steps, values[1])]})):  # fmt: skip
        for labels in labels_of(spec):
            assert len(set(labels)) == len(labels), labels


RUNS_RENDER = [run(day, 100 + day % 7, 90, 105 if day > 3 else None, outcome=Outcome.PASS) for day in range(20)]


@pytest.mark.parametrize("axis", Axis)
@pytest.mark.parametrize("count", [0, 1, 2, 20])
def test_a_png_has_two_pixels_per_unit(axis: Axis, count: int) -> None:
    png = as_png(metric_chart("accuracy", RUNS_RENDER[:count], axis=axis, width=300, height=100))
    assert png.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", png[16:24])
    assert width >= 600
    assert height >= 200


def test_verdicts_differ_by_shape_and_not_only_by_colour() -> None:
    def mark(outcome: Outcome) -> str:
        svg = as_svg(metric_chart("", [run(1, 1.0, outcome=outcome)]))
        return svg.split('aria-roledescription="point"')[1].split('d="')[1].split('"')[0]

    assert mark(Outcome.PASS) != mark(Outcome.FAIL) != mark(Outcome.INSUFFICIENT_DATA)


def test_a_title_is_escaped() -> None:
    svg = as_svg(metric_chart("</title><script>alert(1)</script>", RUNS_RENDER))
    assert "<script" not in svg


NUMBERS_MAIL = st.none() | st.floats(-1e308, 1e308)


def runs(*values: float | None, lower: float | None = None, upper: float | None = None) -> list[StoredMetric]:
    """Return runs of which the last one is broken."""
    last = len(values) - 1
    return [
        StoredMetric(
            f"run {number}",
            datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=number),
            "loss",
            value,
            JobStatus.SUCCESS,
            Outcome.FAIL if number == last else Outcome.PASS,
            lower=lower,
            upper=upper,
        )
        for number, value in enumerate(values)
    ]


@given(st.lists(NUMBERS_MAIL, min_size=1, max_size=8), NUMBERS_MAIL, NUMBERS_MAIL)
def test_every_number_has_a_chart(values: list[float | None], lower: float | None, upper: float | None) -> None:
    spec = mail_chart(runs(*values, lower=lower, upper=upper))
    text = json.dumps(spec, allow_nan=False)
    assert "must be above None" not in text
    (domain,) = {tuple(layer["encoding"]["y"]["scale"]["domain"]) for layer in spec["layer"][:1]}
    assert math.isfinite(domain[0])
    assert domain[0] < domain[1]


def test_an_open_side_has_no_line_and_a_bound_has_a_label() -> None:
    spec = mail_chart(runs(0.9, 0.9, 1.8, upper=0.96))
    assert {row["side"] for row in spec["datasets"]["bounds"]} == {"upper"}
    text = json.dumps(spec)
    assert "must be below 0.96" in text
    assert "must be above" not in text


def test_the_run_of_the_mail_is_marked_even_without_a_value() -> None:
    assert [row["state"] for row in mail_chart(runs(0.9, 1.8))["datasets"]["runs"]] == ["good", "bad"]
    assert json.dumps(mail_chart(runs(0.9, None))).count("this run: no value") == 2  # with a halo


def test_a_chart_is_small_and_twice_as_sharp_as_a_phone_shows_it() -> None:
    png = as_png(mail_chart(runs(*[0.9] * 29, 1.8, upper=0.96)))
    assert int.from_bytes(png[16:20]) == 720
    assert len(png) < 25_000


def test_many_tests_are_all_distinguishable() -> None:
    lines = {f"test-{number}": [run(1, number), run(2, number + 1)] for number in range(20)}
    spec = comparison_chart(lines)
    colours = spec["encoding"]["color"]["scale"]["range"]
    shapes = spec["layer"][1]["encoding"]["shape"]["scale"]["range"]
    assert len(set(zip(colours, shapes, strict=True))) == 20
    assert as_svg(spec).count('aria-roledescription="point"') == 40
