"""The charts of a test's page, as JSON for its script: each is requested when it comes into view."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ml_metrics.charts import Annotation, Axis
from ml_metrics.dashboard.chart_data import charts_document, charts_of_test, curves_of, time_chart
from ml_metrics.dashboard.other_tests import without_unreadable
from ml_metrics.dashboard.query import BadQueryError, choice, required, span_of
from ml_metrics.dashboard.ribbon import changes_between

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import datetime

    from ml_metrics.dashboard.chart_data import Curve
    from ml_metrics.dashboard.query import Span
    from ml_metrics.dashboard.reader import Reader
    from ml_metrics.judge import Acceptance
    from ml_metrics.model import StoredMetric
    from ml_metrics.warehouse import JobRow, Warehouse

MAX_RUNS = 1000
MAX_AT_ONCE = 60
"""The most metrics of one request; goodput has about forty kinds of time."""
DEFAULT_DAYS = 90
AXES = tuple(axis.value for axis in Axis)
PARTS = ("metrics", "time")


@dataclass(frozen=True, slots=True)
class Plot:
    """Some metrics of a test over its runs."""

    curves: list[Curve]
    changed: list[Annotation]
    """The changes of image, machine and parameters between the runs."""
    attributes: Mapping[str, Mapping[str, str]]
    acceptances: list[Acceptance]
    values: list[StoredMetric]
    """All values, those of trials included."""


def plot_of(  # noqa: PLR0913  (independent facts)
    warehouse: Warehouse,
    test: str,
    *,
    metrics: Sequence[str],
    runs: Sequence[JobRow],
    span: tuple[datetime, datetime],
    readable: Callable[[Iterable[str]], frozenset[str]],
) -> Plot:
    """Read some metrics of a test in a time span, and what explains their changes."""
    shown, _ = without_unreadable(warehouse.metrics.of_test(test, metrics, *span), readable)
    attributes = warehouse.attributes([test], {run.uuid: run.timestamp for run in runs})
    changed = [Annotation(run.timestamp, text, "changed") for run, text in changes_between(runs, attributes)]
    acceptances = warehouse.acceptances.of_test(test)
    return Plot(curves_of(runs, shown, acceptances, attributes), changed, attributes, acceptances, shown)


def charts_of_page(
    warehouse: Warehouse, query: Mapping[str, str], metrics: Sequence[str], reader: Reader
) -> dict[str, Any]:
    """Return some charts of a test, each with the name of its metric, and with notes about its changes."""
    if not 1 <= len(metrics) <= MAX_AT_ONCE:
        raise BadQueryError(f"metric is given {len(metrics)} times; 1 to {MAX_AT_ONCE} are possible.")
    test, axis, part = required(query, "test"), Axis(choice(query, "axis", AXES)), choice(query, "part", PARTS)
    span = span_of(query, reader.now, DEFAULT_DAYS)
    listed = warehouse.runs.of_test(test, span.since, span.until, MAX_RUNS, trials=True)
    runs = [run for run in listed if run.trial is None]
    since = listed[-1].timestamp if listed else span.since
    plot = plot_of(warehouse, test, metrics=metrics, runs=runs, span=(since, span.until), readable=reader.readable)
    if part == "time":
        charts = [("time", chart)] if (chart := time_chart(plot.curves, runs, utc=span.is_utc)) else []
    else:
        charts = charts_of_test(plot.curves, runs, plot.changed, axis=axis, utc=span.is_utc)
    return {
        **charts_document(charts, {str(index): reader.links.run(run.uuid, test) for index, run in enumerate(runs)}),
        "notes": {curve.metric: _notes(curve, span) for curve in plot.curves if curve.annotations},
    }


def _notes(curve: Curve, span: Span) -> list[str]:
    signs = {"accepted": "A", "level": "↕"}
    return [f"{signs[note.kind]} {span.local(note.at):%Y-%m-%d %H:%M} {note.text}" for note in curve.annotations]
