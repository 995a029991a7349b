"""The page of one test: a chart for each metric, and its runs."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from ml_metrics.charts import PRODUCTIVE, Axis
from ml_metrics.config.regression import DEFAULT
from ml_metrics.dashboard.chart_data import charts_of_test, charts_script, is_time_part, time_chart, time_parts
from ml_metrics.dashboard.links import airflow_dag, with_query
from ml_metrics.dashboard.metric_groups import TIME, groups_of, heads_of, is_folded
from ml_metrics.dashboard.other_tests import without_unreadable
from ml_metrics.dashboard.page import NotFoundError, Page
from ml_metrics.dashboard.pages.not_running import problems_by_test, sentences_of
from ml_metrics.dashboard.pages.one_test_charts import AXES, DEFAULT_DAYS, MAX_AT_ONCE, MAX_RUNS, Plot, plot_of
from ml_metrics.dashboard.query import choice, required, span_of, text, whole_number
from ml_metrics.dashboard.ribbon import ribbon_of
from ml_metrics.dashboard.status_letters import by_run, status_and_links
from ml_metrics.model import JobStatus

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ml_metrics.dashboard.chart_data import Curve
    from ml_metrics.dashboard.metric_groups import Head
    from ml_metrics.dashboard.query import Span
    from ml_metrics.dashboard.reader import Reader
    from ml_metrics.model import StoredMetric
    from ml_metrics.warehouse import JobRow, Warehouse

MAX_TABLE_ROWS = 4000
"""The most rows of all tables behind the charts together, which keeps the page fast. CSV has every value."""
MIN_TABLE_ROWS = 50
MAX_CHARTS, MAX_NAMED = 100, 500
"""The metrics that one page draws, and those on other pages that it names."""
MAX_EXPORTED, MAX_VALUES = 5000, 200_000
"""The metrics of one JSON document or CSV file, and their values."""
MAX_ROWS_OF_ONE = 1000
MAX_ROWS = 25
"""The runs that the table lists before a reader asks for all."""
VIEWS = ("all", "time")


def page_of_test(warehouse: Warehouse, query: Mapping[str, str], reader: Reader, most: int = MAX_CHARTS) -> Page:
    """Return the page of the test that the query names."""
    now, links, readable = reader.now, reader.links, reader.readable
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
    only, view = text(query, "metric"), choice(query, "view", VIEWS)
    exported = text(query, "format") not in {"", "html"}
    matching = [name for name in names if part.casefold() in name.casefold() and (exported or names[name].regular)]
    ranked = _ranked({name: names[name].judged for name in matching}, found_broken)
    folded = [] if exported else sorted(name for name in ranked if is_folded(name, names[name]))
    chosen = [name for name in ranked if name not in set(folded)]
    time_names = [name for name in chosen if is_time_part(name)][:MAX_AT_ONCE]
    if only or view == "time":
        chosen, folded = [only] if only in names else time_names if view == "time" else [], []
    size = max(1, min(MAX_EXPORTED, MAX_VALUES // max(1, len(listed)))) if exported else most
    pages = max(1, -(-len(chosen) // size))
    page = min(whole_number(query, "page", 1, 1_000_000), pages)
    on_page = chosen[(page - 1) * size : page * size]
    # a page loads the values of a metric when its chart comes into view; what has no script needs them at once
    whole = exported or not links.live or bool(only) or view == "time"
    plot = plot_of(
        warehouse, test, metrics=on_page if whole else [], runs=runs, span=(since, span.until), readable=readable
    )
    curves = plot.curves
    measured = next((run for run in runs if run.job_status == JobStatus.SUCCESS), newest)
    at_hand = warehouse.metrics.named_of_run(measured.place, on_page) if not whole else {}
    latest = {row.metric: row for row in without_unreadable(list(at_hand.values()), readable)[0]}
    heads = heads_of([curve.metric for curve in curves] if whole else on_page, latest, curves)
    quarantine = warehouse.quarantines.newest().get(test)
    broken = by_run(without_unreadable(found_broken, readable)[0])
    rows = [status_and_links(run, broken.get(run.uuid, [])) for run in listed]
    parts = time_parts(curves)
    notices = []
    if len(found) > MAX_RUNS:
        notices.append(f"Only the newest {MAX_RUNS:,} runs are shown; choose fewer days to see all.")
    if not listed:
        notices.append(
            f"No run stopped between {span.first} and {span.last}. The newest stopped on {newest.timestamp:%Y-%m-%d}."
        )
    if pages > 1:
        notices.append(f"{len(chosen):,} metrics: {len(on_page):,} are on this page, broken ones on the first.")
    notices += sentences_of(problems_by_test(warehouse).get(test, {}))
    addresses = {run.uuid: links.run(run.uuid, test) for run in listed}
    return Page(
        "one_test_page.html",
        {
            "title": test,
            "span": span,
            "notices": notices,
            "test": test,
            "newest": newest,
            "status": next((row for row in rows if row["run"].trial is None), None),
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
            "covered": _covered(heads),
            "table_rows": MAX_ROWS_OF_ONE if only else max(MIN_TABLE_ROWS, MAX_TABLE_ROWS // max(1, len(curves))),
            "ribbon": ribbon_of(rows, plot.attributes, plot.acceptances, addresses),
            "charts": _charts(plot, heads, runs, axis=axis, span=span, addresses=addresses),
            "charts_address": "" if whole else _charts_address(test, query),
            "goodput_kinds": sorted({kind for kinds in parts.values() for kind in kinds}, key=_productive_first),
            "goodput": [(run, parts[run.uuid]) for run in runs if run.uuid in parts],
            "incident": warehouse.incidents.all_open().get(test),
            "quarantine": quarantine if quarantine and quarantine.holds(now) else None,
            "quarantine_until": (now + timedelta(days=7)).date(),
            "rows": rows if not links.live or text(query, "runs") == "all" else rows[:MAX_ROWS],
            "all_rows": len(rows),
            "airflow": airflow_dag(newest.dag_id or test),
            "links": links,
        },
        document=lambda: _document(test, rows, curves, plot.acceptances),
        table=lambda: _table(rows, plot.values),
    )


def _charts(  # noqa: PLR0913  (independent facts)
    plot: Plot,
    heads: Sequence[Head],
    runs: Sequence[JobRow],
    *,
    axis: Axis,
    span: Span,
    addresses: Mapping[str, str],
) -> str:
    """Return the charts that the page has from the start, as JSON for its script."""
    number = {head.metric: f"chart-{head.number}" for head in heads}
    charts = [
        (number[metric], spec)
        for metric, spec in charts_of_test(plot.curves, runs, plot.changed, axis=axis, utc=span.is_utc)
    ]
    if chart := time_chart(plot.curves, runs, utc=span.is_utc):
        charts.append(("chart-time", chart))
    return charts_script(charts, {str(index): addresses[run.uuid] for index, run in enumerate(runs)} if charts else {})


def _charts_address(test: str, query: Mapping[str, str]) -> str:
    """Return the address from which the page's script requests charts, with what the page was requested for."""
    asked = {name: text(query, name) for name in ("since", "until", "tz", "axis")}
    return with_query("charts", test=test, **asked)


def _ranked(names: Mapping[str, bool], broken: Iterable[StoredMetric]) -> list[str]:
    """Return names in the order in which pages have them: broken most recently, with a condition, by name."""
    last: dict[str, float] = {}
    for one in broken:
        last[one.metric] = max(last.get(one.metric, 0.0), one.timestamp.timestamp())
    return sorted(names, key=lambda name: (-last.get(name, 0.0), not names[name] and not is_time_part(name), name))


def _covered(heads: Sequence[Head]) -> list[tuple[str, list[str]]]:
    """Return the patterns of the conditions, each with the metrics that it covers; metrics without one come last."""
    found: dict[str, list[str]] = {}
    for head in heads:
        if not head.rule:
            found.setdefault("", []).append(head.metric)
        elif head.newest and head.newest.condition:
            found.setdefault(head.newest.condition, []).append(head.metric)
    return sorted(found.items(), key=lambda item: (not item[0], item[0] == DEFAULT, item[0]))


def _productive_first(kind: str) -> tuple[bool, str]:
    return kind != PRODUCTIVE, kind


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
                "points": [_point(point, curve) for point in curve.points],
                "annotations": [asdict(one) for one in curve.annotations],
            }
            for curve in curves
        ],
        "acceptances": [asdict(one) for one in acceptances],
    }


def _point(point: StoredMetric, curve: Curve) -> dict[str, Any]:
    return {
        "run_key": point.run_key, "at": point.timestamp, "value": point.value, "lower": point.lower,
        "upper": point.upper, "outcome": point.outcome, "counts": point.run_key not in curve.excluded,
    }  # fmt: skip


def _table(rows: Sequence[dict[str, Any]], metrics: Sequence[StoredMetric]) -> Iterator[Sequence[Any]]:
    """Return a row for each metric of each run; a run without metrics has one row, too."""
    yield ("run", "stopped", "job_status", "run_verdict", "reason", "duration_seconds", "queued_seconds",
           "failed_attempts", "metric", "value", "lower_bound", "upper_bound", "verdict", "trial",
           "started_by")  # fmt: skip
    metrics_of_run = by_run(metrics)
    for row in rows:
        run = row["run"]
        head = (run.uuid, run.timestamp.isoformat(), run.job_status, run.verdict, row["reason"],
                run.job_duration_sec, run.queued_seconds, run.num_failures)  # fmt: skip
        for one in metrics_of_run.get(run.uuid, []):
            yield (*head, one.metric, one.value, one.lower, one.upper, one.outcome, run.trial, run.started_by)
        if run.uuid not in metrics_of_run:
            yield (*head, "", None, None, None, None, run.trial, run.started_by)
