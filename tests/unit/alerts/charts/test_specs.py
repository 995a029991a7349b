"""What each chart looks like: colours, sizes, scales and the order of its layers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

from golden import check
from ml_metrics.alerts.charts import (
    PRODUCTIVE,
    Annotation,
    Axis,
    comparison_chart,
    curve_chart,
    goodput_chart,
    host_chart,
    metric_chart,
    run_curves_chart,
    sweep_chart,
    theme,
    with_flags,
)
from ml_metrics.alerts.charts.metric import mail_chart
from ml_metrics.core.model import CurveBand, Outcome, Sweep, SweepPoint, TagCurve
from unit.alerts.charts.runs import START, run

RUNS = [
    run(0, 0.0),
    run(1, 848.0, None, 900.0, Outcome.PASS),
    run(2, 912.0, 800.0, 900.0, Outcome.FAIL),
    run(3, None, 800.0, 900.0, Outcome.MISSING),
    run(4, 851.0, 800.0, None, Outcome.FAIL),
]
CURVE = TagCurve("loss", (0, 10, 20), (5.0, 4.0, 9.0))
SWEEP = Sweep("ttft", "rate", (SweepPoint(1.0, 10.0), SweepPoint(32.0, 30.0)), "1/s", "ms", "lower")
NARROW = Sweep("ttft", "rate", (SweepPoint(1.0, 10.0), SweepPoint(2.0, 30.0)))
TIMES = [("a", START, {PRODUCTIVE: 90.0, "idle": 10.0}), ("b", START + timedelta(days=1), {PRODUCTIVE: 99.0})]
ENDS = (START, START + timedelta(days=9))


def charts() -> dict[str, dict[str, Any]]:
    return {
        "theme": theme(),
        "dark theme": theme(dark=True),
        "metric": metric_chart(
            "m", RUNS, [Annotation(START, "accepted by vera", "accepted")], excluded={"run-2"}, ends=ENDS
        ),
        "metric on a log axis": metric_chart("m", RUNS, axis=Axis.LOG, utc=False),
        "metric in percent": metric_chart("m", RUNS, axis=Axis.PERCENT, width=300, height=100),
        "mail": mail_chart(RUNS, excluded={"run-2"}),
        "mail about a first run": mail_chart([replace(RUNS[1], unit="ms")]),
        "comparison": comparison_chart({"a": RUNS, "b": RUNS[:2]}),
        "comparison on a log axis": comparison_chart({"a": RUNS}, axis=Axis.LOG),
        "curve": curve_chart(CURVE, CurveBand((10, 20), (3.0, 2.0), (5.0, 3.0))),
        "curve with flags": with_flags(curve_chart(CURVE), [(12, "kill")]),
        "sweep": sweep_chart(SWEEP, [SWEEP]),
        "narrow sweep": sweep_chart(NARROW, []),
        "goodput": goodput_chart(TIMES, ends=ENDS),
        "hosts": with_flags(host_chart(["x", "y"], [0, 100], [[1.0, -2.0], [0.0, 3.0]]), [(120, "kill")]),
        "curves of runs": run_curves_chart({"a": [(0, 1.0), (10, 2.0)], "b": [(0, 3.0)]}, "s"),
    }


def told(chart: dict[str, Any]) -> Iterator[str]:
    for key, value in chart.items():
        if value == theme():
            yield f"{key}: the theme"
            continue
        parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        yield from (f"{key} {name}: {json.dumps(part)}" for name, part in parts)
        if not parts:
            yield f"{key}: {json.dumps(value)}"


def test_each_chart_looks_as_it_did() -> None:
    texts = ["\n".join((f"# {name}", *told(chart), "")) for name, chart in charts().items()]
    check("alerts/charts.txt", "\n".join(texts))
