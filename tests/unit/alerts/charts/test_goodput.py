from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest

from ml_metrics.alerts.charts import CUSTOM, PRODUCTIVE, as_svg, goodput_chart
from ml_metrics.alerts.charts.run import COLOURS, CUSTOM_COLOURS
from unit.alerts.charts.runs import START


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
