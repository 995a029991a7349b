"""The chart of a curve over its envelope."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest

from ml_metrics.alerts.charts import (
    CUSTOM,
    PRODUCTIVE,
    as_svg,
    curve_chart,
    goodput_chart,
    host_chart,
    run_curves_chart,
    sweep_chart,
    with_flags,
)
from ml_metrics.alerts.charts.frame import BLUE, GREY, ORANGE, RED, SERIES_COLOURS
from ml_metrics.alerts.charts.run import COLOURS, CUSTOM_COLOURS
from ml_metrics.core.model import FAILED, CurveBand, Sweep, SweepPoint, TagCurve
from unit.alerts.charts.runs import START

CURVE = TagCurve("loss", (0, 10, 20, 30), (5.0, 4.0, 9.0, 1e-300))
BAND = CurveBand((10, 20, 30), (3.0, 2.0, -1.0), (5.0, 3.0, 1.0))


def test_points_outside_the_envelope_are_marked() -> None:
    spec = curve_chart(CURVE, BAND)
    assert [row["place"] for row in spec["datasets"]["values"]] == ["not judged", "inside", "outside", "inside"]
    assert len(spec["datasets"]["band"]) == 3
    assert as_svg({**spec, "width": 300}).count('aria-roledescription="point"') == 4


def test_a_curve_without_an_envelope_is_drawn() -> None:
    assert "<svg" in as_svg({**curve_chart(CURVE), "width": 300})
    assert "<svg" in as_svg({**curve_chart(TagCurve("loss", (), ())), "width": 300})


def test_a_curve_over_a_load_is_drawn_over_the_range_of_those_before() -> None:
    before = [Sweep("ttft", "rate", (SweepPoint(1.0, y), SweepPoint(32.0, 3 * y)), "1/s", "ms") for y in (10.0, 14.0)]
    own = Sweep("ttft", "rate", (SweepPoint(1.0, 30.0), SweepPoint(16.0, 0.0, mark=FAILED)), "1/s", "ms", "lower")
    spec = sweep_chart(own, before)
    assert spec["datasets"]["values"] == [{"x": 1.0, "value": 30.0}], "a failed point is none"
    assert spec["datasets"]["band"] == [{"x": 1.0, "low": 10.0, "high": 14.0}, {"x": 32.0, "low": 30.0, "high": 42.0}]
    assert spec["layer"][1]["encoding"]["x"]["scale"]["type"] == "log"
    assert "<svg" in as_svg({**spec, "width": 300})
    assert "<svg" in as_svg({**sweep_chart(Sweep("</script>", "x", (SweepPoint(0.0, 1.0),)), []), "width": 300})


def test_productive_time_is_the_first_of_the_stack() -> None:
    runs = [("run-1", START, {"checkpoint": 10.0, PRODUCTIVE: 90.0, "idle": 0.0}), ("run-2", START, {PRODUCTIVE: 99.0})]
    spec = goodput_chart(runs)
    rows = [(row["run"], row["kind"], row["percent"]) for row in spec["datasets"]["times"]]
    assert rows == [("run-1", PRODUCTIVE, 90), ("run-1", "checkpoint", 10), ("run-2", PRODUCTIVE, 99)]
    assert as_svg(spec).count('aria-roledescription="bar"') == 3


def percent_by_run(spec: dict[str, Any]) -> dict[str, dict[str, float]]:
    runs: dict[str, dict[str, float]] = {}
    for row in spec["datasets"]["times"]:
        runs.setdefault(row["run"], {})[row["kind"]] = row["percent"]
    return runs


def colours(spec: dict[str, Any]) -> dict[str, str]:
    scale = spec["encoding"]["color"]["scale"]
    return dict(zip(scale["domain"], scale["range"], strict=True))


def test_a_kind_has_the_same_colour_beside_any_others() -> None:
    kinds = [kind for kind in COLOURS if kind != PRODUCTIVE]
    whole = colours(goodput_chart([("run", START, {PRODUCTIVE: 30.0, **dict.fromkeys(kinds, 5.0)})]))
    for kind in kinds:
        alone = colours(goodput_chart([("run", START, {PRODUCTIVE: 95.0, kind: 5.0})]))
        assert alone == {PRODUCTIVE: whole[PRODUCTIVE], kind: whole[kind]}


def test_no_two_kinds_have_one_colour_and_every_second_is_drawn_once() -> None:
    types = {f"{CUSTOM}_type{number}": 2.0 + number / 10 for number in range(20)}
    buckets = dict.fromkeys((kind for kind in COLOURS if kind != PRODUCTIVE), 1.0)
    parts = {PRODUCTIVE: 100 - sum(types.values()) - sum(buckets.values()), **buckets, **types}
    spec = goodput_chart([("run", START, parts)])
    assert len(set(colours(spec).values())) == len(colours(spec)) == len(COLOURS) + len(CUSTOM_COLOURS)
    assert sum(percent_by_run(spec)["run"].values()) == pytest.approx(100)
    assert {f"{CUSTOM}_type{number}" for number in range(14, 20)} <= set(colours(spec))


def test_kinds_that_are_small_in_all_runs_are_part_of_other() -> None:
    runs = [
        ("run-1", START, {PRODUCTIVE: 98, "training_prep": 0.5, "stall": 0.25, "other": 1.25, "program_startup": 0}),
        ("run-2", START, {PRODUCTIVE: 90.0, "training_prep": 10.0}),
    ]
    spec = goodput_chart(runs)
    assert percent_by_run(spec) == {
        "run-1": {PRODUCTIVE: 98.0, "training_prep": 0.5, "other": 1.5},
        "run-2": {PRODUCTIVE: 90.0, "training_prep": 10.0},
    }
    assert list(colours(spec)) == [PRODUCTIVE, "training_prep", "other"]


def test_the_axis_is_the_time_of_the_runs_and_may_be_that_of_the_charts_beside() -> None:
    runs = [(f"run-{day}", START + timedelta(days=day), {PRODUCTIVE: 100.0}) for day in (0, 1, 9)]
    own, shared = goodput_chart(runs), goodput_chart(runs, ends=(START - timedelta(days=9), START + timedelta(days=9)))
    first, last = START.timestamp() * 1000, (START + timedelta(days=9)).timestamp() * 1000
    for spec, start in ((own, first), (shared, (START - timedelta(days=9)).timestamp() * 1000)):
        params = {one["name"]: one["value"] for one in spec["params"]}
        assert (params["start"], params["end"]) == (start, last)
        assert spec["encoding"]["x"]["type"] == "temporal"
    places = [float(x) for x in re.findall(r'aria-label="at: [^"]*"[^>]*d="M([\d.e-]+),', as_svg(own))]
    assert len(places) == 3
    assert (places[2] - places[0]) / (places[1] - places[0]) == pytest.approx(9, rel=0.02)


def test_every_cell_is_drawn() -> None:
    spec = host_chart(["a", "a"], [0, 10, 20], [[0, 1, 2], [0, 80, -3]])
    assert len(spec["datasets"]["cells"]) == 6
    assert spec["encoding"]["color"]["scale"]["domain"] == [-50, 0, 50]
    assert as_svg({**spec, "width": 300}).count('aria-roledescription="rect mark"') == 6


def test_what_was_done_to_a_run_is_a_flag_at_its_step() -> None:
    flags = [(0, "kill"), (14, "freeze(30s)")]
    charts = [
        host_chart(["a"], [0, 10, 20], [[0, 1, 2]]),
        curve_chart(TagCurve("loss", (0, 10, 20), (3.0, 2.0, 1.0))),
        run_curves_chart({"this": [(0, 3.0), (20, 1.0)]}),
    ]
    steps = []
    for chart in charts:
        flagged = with_flags(chart, flags)
        assert as_svg({**flagged, "width": 300}).count('aria-roledescription="rule mark"') == 2
        steps.append([one["step"] for one in flagged["datasets"]["flags"]])
        assert with_flags(chart, []) == chart
    assert steps == [[0, 10], [0, 14], [0, 14]]  # of hosts, at the column that has the step


PAGES = {"light": "#ffffff", "dark": "#161d2d"}
"""As in dashboard.css."""


def luminance(colour: str) -> float:
    """Relative luminance, as WCAG defines it."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    dark, bright = sorted((luminance(one), luminance(other)))
    return (bright + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("colour", sorted({BLUE, ORANGE, RED, GREY, *SERIES_COLOURS, *COLOURS.values()}))
def test_every_mark_has_enough_contrast(colour: str, page: str) -> None:
    assert contrast(colour, PAGES[page]) >= 3
