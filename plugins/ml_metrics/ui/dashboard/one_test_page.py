"""The page of one test: the ribbon of its runs, what changed between them, its charts and its metrics."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from ml_metrics.alerts.charts import CUSTOM, PRODUCTIVE, Annotation, Axis, goodput_chart, metric_chart, theme
from ml_metrics.core.kinds import kind_of
from ml_metrics.core.model import BROKEN, JobStatus, StoredMetric
from ml_metrics.judge import FIRST_ATTRIBUTES, Acceptance, changes_in, differences, in_baseline
from ml_metrics.ui.dashboard.links import (
    BadQueryError,
    airflow_dag,
    choice,
    page_in,
    required,
    span_of,
    text,
    with_query,
)
from ml_metrics.ui.dashboard.page import (
    Columns,
    NotFoundError,
    Page,
    Reader,
    as_script_json,
    problems_by_test,
    shown_of,
)
from ml_metrics.ui.dashboard.status_letters import by_run, status_and_links, why_of
from ml_metrics.warehouse import JobRow, NamedMetric, Warehouse, references_of

WIDTH = 1000
"""The units of the drawing, which the page stretches to its own width."""


def ends_of(runs: Sequence[JobRow]) -> tuple[datetime, datetime] | None:
    """The oldest and the newest: the time axis of every chart of the page."""
    times = [run.timestamp for run in runs]
    return (min(times), max(times)) if times else None


def changes_between(
    runs: Iterable[JobRow], attributes: Mapping[str, Mapping[str, str]]
) -> Iterator[tuple[JobRow, str]]:
    """Each run whose image, machine or parameters are not those of the run before, and what differs."""
    ordered = sorted(runs, key=lambda run: (run.timestamp, run.uuid))
    # other metadata may differ in each run, and would hide these
    explaining = {
        run.uuid: {
            name: value
            for name, value in (attributes.get(run.uuid) or {}).items()
            if name in FIRST_ATTRIBUTES or name.startswith("param.")
        }
        for run in ordered
    }
    for before, after in pairwise(ordered):
        if changed := differences(explaining, before.uuid, after.uuid):
            yield after, "; ".join(changed)


def ribbon_of(rows: Sequence[dict[str, Any]], plot: Plot) -> dict[str, Any]:
    """The runs that a page shows on a line of time, oldest first, with the changes between them, newest first.

    A change is that of image or parameters, or of the level that later runs are compared with.
    """
    ordered = sorted((row for row in rows if row["run"].trial is None), key=lambda row: row["run"].timestamp)
    times: dict[str, datetime] = {row["run"].uuid: row["run"].timestamp for row in ordered}
    if not times:
        return {"marks": []}
    start, end = min(times.values()), max(times.values())
    whole, width = max((end - start).total_seconds(), 3600.0), max(2.0, min(12.0, WIDTH / (len(times) + 1) * 0.8))

    def place(moment: datetime) -> float:
        return round((moment - start).total_seconds() / whole * (WIDTH - width), 1)

    changes = [
        (run.timestamp, "◆", change, run.uuid)
        for run, change in changes_between([row["run"] for row in ordered], plot.attributes)
    ]
    changes += [
        (times[one.run_key], "A", f"{one.metric}: level accepted by {one.accepted_by}: {one.reason}", one.run_key)
        for one in plot.acceptances
        if one.run_key in times
    ]
    changes.sort(key=lambda change: change[0], reverse=True)
    return {
        "width": round(width, 1),
        "marks": [(place(row["run"].timestamp), row) for row in ordered],
        "events": [(place(change[0]), *change) for change in changes[:200]],
        "count": len(changes),
        "first": f"{start:%Y-%m-%d}",
        "last": f"{end:%Y-%m-%d}",
    }


BADPUT_PREFIX, BADPUT_SUFFIX = "badput_", "_percent"


@dataclass(frozen=True, slots=True)
class Curve:
    """One metric over the runs of a test, oldest first."""

    metric: str
    points: tuple[StoredMetric, ...]
    excluded: frozenset[str]
    """The keys of the runs that later runs are not compared with."""
    annotations: tuple[Annotation, ...]
    rule: str
    """The condition of the newest run that has one, as text; empty if there is none."""

    @property
    def newest(self) -> StoredMetric:
        return self.points[-1]

    @property
    def broken(self) -> bool:
        return self.newest.outcome in BROKEN


def curves_of(
    runs: Sequence[JobRow],
    metrics: Iterable[StoredMetric],
    acceptances: Sequence[Acceptance],
    attributes: Mapping[str, Mapping[str, str]],
) -> list[Curve]:
    """Broken metrics first, then the most recently broken, then by name."""
    run_keys = {run.uuid for run in runs}
    rows: dict[str, list[StoredMetric]] = defaultdict(list)
    for metric in metrics:
        if metric.run_key in run_keys:
            rows[metric.metric].append(metric)
    curves = [_curve(name, found, acceptances, attributes) for name, found in rows.items()]

    def rank(curve: Curve) -> tuple[bool, float, str]:
        broken = (point.timestamp.timestamp() for point in curve.points if point.outcome in BROKEN)
        return not curve.broken, -max(broken, default=0.0), curve.metric

    return sorted(curves, key=rank)


def charts_script(charts: Iterable[tuple[str, Mapping[str, Any]]], runs: Mapping[str, str]) -> str:
    """`charts`: each element's id and spec. `runs`: the address of each run's page, by the run's name in the specs."""
    return as_script_json({"themes": {"light": theme(), "dark": theme(dark=True)}, **charts_document(charts, runs)})


def charts_document(charts: Iterable[tuple[str, Mapping[str, Any]]], runs: Mapping[str, str]) -> dict[str, Any]:
    """Without the themes, which a page has only once."""
    shapes: dict[str, int] = {}
    drawn = []
    for element, spec in charts:
        params = spec.get("params", [])
        # neither the data nor the values of parameters belong to the shape
        unset = {**spec, "params": [{**one, "value": 0} for one in params]}
        shape = json.dumps({name: part for name, part in unset.items() if name not in {"datasets", "config"}})
        number = shapes.setdefault(shape, len(shapes))
        drawn.append({"id": element, "shape": number, "datasets": spec["datasets"], "params": params})
    return {"shapes": [json.loads(shape) for shape in shapes], "charts": drawn, "runs": runs}


def time_kind(metric: str) -> str:
    """Of which kind of time a metric is the percentage; empty if it is another metric."""
    if metric.startswith(BADPUT_PREFIX) and metric.endswith(BADPUT_SUFFIX):
        return metric[len(BADPUT_PREFIX) : -len(BADPUT_SUFFIX)]
    return PRODUCTIVE if metric == "goodput" else ""


def time_parts(metrics: Iterable[StoredMetric]) -> dict[str, dict[str, float]]:
    """The percentage of each run's time that was productive, and that was lost by each cause."""
    parts: dict[str, dict[str, float]] = defaultdict(dict)
    for one in metrics:
        if (kind := time_kind(one.metric)) and one.value is not None:
            parts[one.run_key][kind] = one.value
    for kinds in parts.values():
        # types of custom events that are metrics themselves are in their total: only the rest of it is a part
        types = sum(percent for kind, percent in kinds.items() if kind.startswith(f"{CUSTOM}_"))
        rest = kinds.get(CUSTOM, 0.0) - types
        kinds |= {CUSTOM: rest if rest > 1e-6 else 0.0, "data_loading_async": 0.0}  # which runs beside the steps
    return {
        run: {kind: percent for kind, percent in kinds.items() if percent or kind == PRODUCTIVE}
        for run, kinds in parts.items()
    }


def _curve(
    name: str,
    rows: Iterable[StoredMetric],
    acceptances: Sequence[Acceptance],
    attributes: Mapping[str, Mapping[str, str]],
) -> Curve:
    ordered = sorted(rows, key=lambda row: (row.timestamp, row.run_key))
    accepted = [(one.timestamp, one) for one in acceptances if one.metric == name and one.timestamp]
    newest = max((((at, one.run_key), one.accepted_at) for at, one in accepted), default=None)
    excluded = frozenset(row.run_key for row in ordered if not in_baseline(row, newest))
    changes = changes_in([row for row in ordered if row.job_status is JobStatus.SUCCESS], attributes=attributes)
    annotations = [Annotation(change.timestamp, str(change), "level") for change in changes]
    annotations += [Annotation(at, f"accepted by {one.accepted_by}: {one.reason}", "accepted") for at, one in accepted]
    rule = next((row.rule for row in reversed(ordered) if row.rule), "")
    return Curve(name, tuple(ordered), excluded, tuple(annotations), rule or "")


JUDGED, TIME = "With a condition", "Time and cost"


@dataclass(frozen=True, slots=True)
class Head:
    """One metric of the page."""

    number: int
    """Its place on the page, which names its chart."""
    metric: str
    newest: StoredMetric | None
    """Its value in the newest run that has metrics."""
    curve: Curve | None = None
    """All of its values, where the page has them."""

    @property
    def broken(self) -> bool:
        return self.newest is not None and self.newest.outcome in BROKEN

    @property
    def rule(self) -> str:
        return (self.curve.rule if self.curve else "") or (self.newest.rule if self.newest else "") or ""


def groups_of(heads: Sequence[Head], judged: Mapping[str, NamedMetric]) -> list[tuple[str, str, list[Head]]]:
    """The title and unit of each: metrics with a condition, time and cost, then by the first part of the names.

    The unit is empty if the metrics of a group have several, or one has none.
    """
    found: dict[str, list[Head]] = {title: [] for title in (JUDGED, TIME)}
    for head in heads:
        is_judged = head.rule or (head.metric in judged and judged[head.metric].judged)
        first, slash, _ = head.metric.partition("/")
        title = first if slash and first else "Other metrics"
        if is_judged and (head.broken or not time_kind(head.metric)):
            title = JUDGED
        elif time_kind(head.metric) or kind_of(head.metric).generated:
            title = TIME
        found.setdefault(title, []).append(head)
    units = {
        title: {head.newest.unit if head.newest else kind_of(head.metric).unit for head in group}
        for title, group in found.items()
    }
    return [(title, "".join(units[title]) if len(units[title]) == 1 else "", of) for title, of in found.items() if of]


MAX_RUNS = 1000
MAX_AT_ONCE = 60
"""The most metrics of one request; goodput has about forty kinds of time."""
DEFAULT_DAYS = 90
AXES = tuple(axis.value for axis in Axis)
SIGNS = {"accepted": "A", "level": "↕"}


@dataclass(frozen=True, slots=True)
class Plot:
    """Some metrics of a test over its runs. Charts name a run by its index in `runs`: every chart repeats it."""

    runs: list[JobRow]
    """Without trials."""
    curves: list[Curve]
    attributes: Mapping[str, Mapping[str, str]]
    acceptances: list[Acceptance]
    values: list[StoredMetric]
    """All values, those of trials included."""
    axis: Axis
    utc: bool

    def charts(self) -> list[tuple[str, dict[str, Any]]]:
        """By metric, all on the time axis of the runs."""
        number, ends = {run.uuid: str(index) for index, run in enumerate(self.runs)}, ends_of(self.runs)
        changes = changes_between(self.runs, self.attributes)
        changed = [Annotation(run.timestamp, change, "changed") for run, change in changes]
        form: dict[str, Any] = {"axis": self.axis, "utc": self.utc, "ends": ends, "width": "container", "height": 150}

        def drawn(curve: Curve) -> dict[str, Any]:
            points = [replace(point, run_key=number[point.run_key]) for point in curve.points]
            excluded = {number[run_key] for run_key in curve.excluded}
            return metric_chart("", points, [*changed, *curve.annotations], excluded=excluded, **form)

        return [(curve.metric, drawn(curve)) for curve in self.curves]

    def time(self) -> list[tuple[str, dict[str, Any]]]:
        """Productive and lost time on the time axis of the runs, if a run measured it."""
        parts = time_parts(point for curve in self.curves for point in curve.points)
        runs = enumerate(self.runs)
        bars = [(str(index), run.timestamp, parts[run.uuid]) for index, run in runs if run.uuid in parts]
        return [("time", goodput_chart(bars, utc=self.utc, ends=ends_of(self.runs)))] if bars else []


def plot_of(
    warehouse: Warehouse, query: Mapping[str, str], reader: Reader, listed: Sequence[JobRow], metrics: Sequence[str]
) -> Plot:
    """`listed` are the runs of the days that the query names, newest first."""
    test, span = required(query, "test"), span_of(query, reader.now, DEFAULT_DAYS)
    runs = [run for run in listed if run.trial is None]
    since = listed[-1].timestamp if listed else span.since
    shown = reader.shown(warehouse.metrics.of_test(test, metrics, since, span.until))
    attributes = warehouse.attributes([test], {run.uuid: run.timestamp for run in runs})
    acceptances = warehouse.acceptances.of_test(test)
    curves, axis = curves_of(runs, shown, acceptances, attributes), Axis(choice(query, "axis", AXES))
    return Plot(runs, curves, attributes, acceptances, shown, axis, utc=span.is_utc)


def charts_of_page(
    warehouse: Warehouse, query: Mapping[str, str], metrics: Sequence[str], reader: Reader
) -> dict[str, Any]:
    if not 1 <= len(metrics) <= MAX_AT_ONCE:
        raise BadQueryError(f"metric is given {len(metrics)} times; 1 to {MAX_AT_ONCE} are possible.")
    test, part = required(query, "test"), choice(query, "part", ("metrics", "time"))
    span = span_of(query, reader.now, DEFAULT_DAYS)
    listed = warehouse.runs.of_test(test, span.since, span.until, MAX_RUNS, trials=True)
    plot = plot_of(warehouse, query, reader, listed, metrics)
    charts = plot.time() if part == "time" else plot.charts()
    addresses = {str(index): reader.links.run(run.uuid, test) for index, run in enumerate(plot.runs)}
    return {
        **charts_document(charts, addresses),
        "notes": {
            curve.metric: [
                f"{SIGNS[note.kind]} {span.local(note.at):%Y-%m-%d %H:%M} {note.text}" for note in curve.annotations
            ]
            for curve in plot.curves
            if curve.annotations
        },
    }


MAX_TABLE_ROWS = 4000
"""The most rows of all tables behind the charts together, which keeps the page fast. CSV has every value."""
MIN_TABLE_ROWS = 50
MAX_CHARTS, MAX_NAMED = 100, 500
"""The metrics that one page draws, and those on other pages that it names."""
MAX_EXPORTED, MAX_VALUES = 5000, 200_000
"""The metrics of one JSON document or CSV file, and their values."""
POINT = Columns("run_key at=timestamp value lower upper outcome")
MAX_ROWS = 25
"""The runs that the table lists before a reader asks for all."""


def page_of_test(warehouse: Warehouse, query: Mapping[str, str], reader: Reader, most: int = MAX_CHARTS) -> Page:
    now, links = reader.now, reader.links
    test, axis = required(query, "test"), Axis(choice(query, "axis", AXES))
    part, span = text(query, "q"), span_of(query, now, DEFAULT_DAYS)
    found = warehouse.runs.of_test(test, span.since, span.until, MAX_RUNS + 1, trials=True)
    listed = found[:MAX_RUNS]
    runs = [run for run in listed if run.trial is None]
    newest = next(iter((*runs, *listed)), None) or warehouse.runs.latest(test)
    if newest is None:
        raise NotFoundError(f"There is no test {test!r}, or no run of it was recorded.")
    since = listed[-1].timestamp if listed else span.since
    found_broken = warehouse.metrics.broken_of_test(test, since, span.until) if listed else []
    names = warehouse.metrics.names_of_test(test, newest.place, since, span.until) if listed else {}
    only, view = text(query, "metric"), choice(query, "view", ("all", "time"))
    exported = text(query, "format") not in {"", "html"}
    matching = [name for name in names if part.casefold() in name.casefold() and (exported or names[name].regular)]
    ranked = _ranked(matching, names, found_broken)
    # a metric is only named where each of its values is 0, and nothing judges it
    zero = {name for name in ranked if names[name].always_zero and (not names[name].judged or time_kind(name))}
    folded = [] if exported else sorted(zero)
    chosen = [name for name in ranked if exported or name not in zero]
    time_names = [name for name in chosen if time_kind(name)][:MAX_AT_ONCE]
    if only or view == "time":
        chosen, folded = [only] if only in names else time_names if view == "time" else [], []
    size = max(1, min(MAX_EXPORTED, MAX_VALUES // max(1, len(listed)))) if exported else most
    page, pages, part_of_all = page_in(query, len(chosen), size)
    on_page = chosen[part_of_all]
    # a page loads the values of a metric when its chart comes into view; what has no script needs them at once
    whole = exported or not links.live or bool(only) or view == "time"
    plot = plot_of(warehouse, query, reader, listed, on_page if whole else [])
    curves = plot.curves
    measured = next((run for run in runs if run.job_status == JobStatus.SUCCESS), newest)
    at_hand = warehouse.metrics.named_of_run(measured.place, on_page) if not whole else {}
    latest = {row.metric: row for row in reader.shown(list(at_hand.values()))}
    newest_of = latest | {curve.metric: curve.newest for curve in curves}
    curve_of = {curve.metric: curve for curve in curves}
    heads = [
        Head(number, name, newest_of.get(name), curve_of.get(name))
        for number, name in enumerate(curve_of if whole else on_page)
    ]
    broken = by_run(reader.shown(found_broken))
    rows = [status_and_links(run, broken.get(run.uuid, [])) for run in listed]
    parts = time_parts(point for curve in curves for point in curve.points)
    notices = []
    if len(found) > MAX_RUNS:
        notices.append(f"Only the newest {MAX_RUNS:,} runs are shown; choose fewer days to see all.")
    if not listed:
        notices.append(
            f"No run stopped between {span.first} and {span.last}. The newest stopped on {newest.timestamp:%Y-%m-%d}."
        )
    if pages > 1:
        notices.append(f"{len(chosen):,} metrics: {len(on_page):,} are on this page, broken ones on the first.")
    notices += problems_by_test(warehouse.known_tests.read()).get(test, {}).values()
    addresses = {str(index): links.run(run.uuid, test) for index, run in enumerate(runs)}
    kinds = {kind for of_run in parts.values() for kind in of_run}
    charts = [(f"chart-{head.number}", spec) for head, (_, spec) in zip(heads, plot.charts(), strict=False)]
    charts += [(f"chart-{name}", spec) for name, spec in plot.time()]  # those that the page has from the start
    asked = {name: text(query, name) for name in ("since", "until", "tz", "axis")}
    return Page(
        "one_test_page.html",
        {
            "title": test,
            "span": span,
            "notices": notices,
            "test": test,
            "newest": newest,
            "status": _newest(warehouse, rows, broken, plot.attributes),
            "axis": axis.value,
            "axes": AXES,
            "q": part,
            "page": page,
            "pages": pages,
            "elsewhere": sorted(set(chosen) - set(on_page))[:MAX_NAMED],
            "heads": heads,
            "groups": groups_of(heads, names),
            "time_group": TIME,
            "time_names": [] if whole else time_names,
            "folded": folded,
            "single": bool(only) or view == "time",
            "table_rows": 1000 if only else max(MIN_TABLE_ROWS, MAX_TABLE_ROWS // max(1, len(curves))),
            "ribbon": ribbon_of(rows, plot),
            "charts": charts_script(charts, addresses if charts else {}),
            "charts_address": "" if whole else with_query("charts", test=test, **asked),
            "goodput_kinds": sorted(kinds, key=lambda kind: (kind != PRODUCTIVE, kind)),
            "goodput": [(run, parts[run.uuid]) for run in runs if run.uuid in parts],
            "incident": warehouse.incidents.all_open().get(test),
            "quarantine": reader.held(warehouse).get(test),
            "quarantine_until": (now + timedelta(days=7)).date(),
            "rows": rows if not links.live or text(query, "runs") == "all" else rows[:MAX_ROWS],
            "all_rows": len(rows),
            "airflow": airflow_dag(newest.dag),
        },
        document=lambda: _document(test, rows, curves, plot.acceptances),
        table=lambda: _table(rows, plot.values),
    )


def _newest(
    warehouse: Warehouse,
    rows: Iterable[dict[str, Any]],
    broken: Mapping[str, Sequence[StoredMetric]],
    attributes: Mapping[str, Mapping[str, str]],
) -> dict[str, Any] | None:
    """The newest regular run; a bad one with by how much, since when, and what changed then, as on its own page."""
    newest = next((row for row in rows if row["run"].trial is None), None)
    if newest and newest["bad"]:
        run, of_run = newest["run"], broken.get(newest["run"].uuid, [])
        references = references_of(warehouse, run.place, of_run)
        newest["reason"] = why_of(warehouse, run, of_run, references, attributes) or newest["reason"]
    return newest


def _ranked(metrics: Iterable[str], names: Mapping[str, NamedMetric], broken: Iterable[StoredMetric]) -> list[str]:
    """In the order in which pages have them: broken most recently, with a condition, by name."""
    last: dict[str, float] = {}
    for one in broken:
        last[one.metric] = max(last.get(one.metric, 0.0), one.timestamp.timestamp())
    return sorted(
        metrics, key=lambda name: (-last.get(name, 0.0), not names[name].judged and not time_kind(name), name)
    )


def _document(
    test: str, rows: Sequence[dict[str, Any]], curves: Sequence[Curve], acceptances: Sequence[Any]
) -> dict[str, Any]:
    return {
        "test": test,
        "runs": [{**asdict(row["run"]), "letter": row["letter"], "reason": row["reason"]} for row in rows],
        "metrics": [
            {
                "metric": curve.metric,
                "rule": curve.rule,
                "condition": curve.newest.condition,
                "unit": curve.newest.unit,
                "better": curve.newest.better,
                "shown": shown_of(curve.newest),
                "points": [
                    {**point, "counts": point["run_key"] not in curve.excluded}
                    for point in POINT.documents(curve.points)
                ],
                "annotations": [asdict(one) for one in curve.annotations],
            }
            for curve in curves
        ],
        "acceptances": [asdict(one) for one in acceptances],
    }


def _table(rows: Sequence[dict[str, Any]], metrics: Sequence[StoredMetric]) -> Iterator[Sequence[Any]]:
    """A run without metrics has one row, too."""
    yield ("run", "stopped", "job_status", "run_verdict", "reason", "duration_seconds", "queued_seconds",
           "failed_attempts", "metric", "value", "lower_bound", "upper_bound", "verdict", "trial",
           "started_by")  # fmt: skip
    metrics_of_run = by_run(metrics)
    for row in rows:
        run = row["run"]
        head = (run.uuid, run.timestamp, run.job_status, run.verdict, row["reason"],
                run.job_duration_sec, run.queued_seconds, run.num_failures)  # fmt: skip
        values = [(one.metric, one.value, one.lower, one.upper, one.outcome) for one in metrics_of_run[run.uuid]]
        for value in values or [("", None, None, None, None)]:
            yield (*head, *value, run.trial, run.started_by)
