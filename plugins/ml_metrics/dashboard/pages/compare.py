"""Several tests and metrics side by side, at an address that a person can read and send to another."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from ml_metrics.charts import Axis, Plotted, comparison_chart
from ml_metrics.dashboard.chart_data import charts_data
from ml_metrics.dashboard.page import Page, embedded
from ml_metrics.dashboard.query import BadQueryError, choice, span_of, text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from ml_metrics.dashboard.links import Links
    from ml_metrics.dashboard.query import Span
    from ml_metrics.warehouse import Warehouse
    from ml_metrics.warehouse.pages import ShownMetric

MAX_TESTS, MAX_METRICS, MAX_VALUES, MAX_PATTERNS = 20, 20, 20_000, 40
MAX_LIST_LENGTH = 3000
AXES = (Axis.LINEAR.value, Axis.LOG.value)
Table = dict[str, dict[str, str]]


def page_of_comparison(
    warehouse: Warehouse,
    query: Mapping[str, str],
    *,
    readable: Callable[[Iterable[str]], frozenset[str]],
    now: datetime,
    links: Links,
) -> Page:
    """`tests` and `metrics` are names, parted by commas; `*` stands for anything."""
    span, axis = span_of(query, now), Axis(choice(query, "axis", AXES))
    asked = {name: _patterns(query, name) for name in ("tests", "metrics")}
    standings = warehouse.standings()
    dags = readable({one.newest.dag_id for one in standings})
    known = [one.newest.test for one in standings if one.newest.dag_id in dags]
    tests, notices = _matching(known, asked["tests"], MAX_TESTS, "tests")
    names = warehouse.metric_names(tests, span.since, span.until)
    metrics, more = _matching(names, asked["metrics"], MAX_METRICS, "metrics")
    values = warehouse.compared(tests, metrics, span.since, span.until, MAX_VALUES + 1)
    if len(values) > MAX_VALUES:
        more.append(f"These days hold more than {MAX_VALUES:,} values: ask for fewer days to see all.")
    values = [one for one in values[:MAX_VALUES] if one.dag_id in dags]
    metrics = [metric for metric in metrics if any(one.metric == metric for one in values)]
    lines = _lines(values)
    return Page(
        "compare.html",
        {
            "title": "Compare",
            "span": span,
            "notices": notices + more,
            "tests": ",".join(asked["tests"]),
            "metrics": ",".join(asked["metrics"]),
            "axis": axis.value,
            "axes": AXES,
            "known_tests": known,
            "known_metrics": names,
            "shown": [(index, metric, *_side_by_side(values, metric, span)) for index, metric in enumerate(metrics)],
            "charts": embedded(
                charts_data(
                    [
                        (
                            f"chart-{index}",
                            comparison_chart(lines[metric], axis=axis, utc=span.is_utc, width="container"),
                        )
                        for index, metric in enumerate(metrics)
                    ],
                    {one.run_key: links.run(one.run_key, one.test) for one in values},
                )
            ),
            "links": links,
        },
        document=lambda: {"tests": tests, "metrics": metrics, "values": [_value(one) for one in values]},
        table=lambda: _table(values),
    )


def _patterns(query: Mapping[str, str], name: str) -> list[str]:
    patterns = [part.strip() for part in text(query, name, MAX_LIST_LENGTH).split(",") if part.strip()]
    if len(patterns) > MAX_PATTERNS:
        raise BadQueryError(f"{name} names more than {MAX_PATTERNS} patterns.")
    return patterns


def _matching(known: Sequence[str], patterns: Sequence[str], most: int, what: str) -> tuple[list[str], list[str]]:
    """The names that a pattern asks for, and what to say if they are none or too many."""
    found = [name for name in known if any(fnmatchcase(name, _pattern(one)) for one in patterns)]
    if patterns and not found:
        return [], [f"None of the {what} that you may see is called {', '.join(patterns)}."]
    if len(found) > most:
        return found[:most], [f"{len(found)} {what} are asked for: the first {most} are shown."]
    return found, []


def _pattern(words: str) -> str:
    """Only `*` means more than itself."""
    return words.replace("[", "[[]").replace("?", "[?]")


def _lines(values: Sequence[ShownMetric]) -> dict[str, dict[str, list[Plotted]]]:
    lines: dict[str, dict[str, list[Plotted]]] = {}
    for one in values:
        if one.at:
            lines.setdefault(one.metric, {}).setdefault(one.test, []).append(
                Plotted(one.run_key, one.at, one.value, one.lower, one.upper)
            )
    return lines


def _side_by_side(values: Sequence[ShownMetric], metric: str, span: Span) -> tuple[list[str], Table]:
    """The days that have a value, newest first, and each test's last value of each day."""
    rows: Table = {}
    for one in values:
        if one.metric == metric and one.at:
            day = span.local(one.at).date().isoformat()
            rows.setdefault(one.test, {})[day] = "-" if one.value is None else f"{one.value:.6g}"
    return sorted({day for row in rows.values() for day in row}, reverse=True), rows


def _value(one: ShownMetric) -> dict[str, Any]:
    return {
        "run": one.run_key, "test": one.test, "metric": one.metric, "at": one.at, "value": one.value,
        "lower": one.lower, "upper": one.upper, "verdict": one.verdict,
    }  # fmt: skip


def _table(values: Sequence[ShownMetric]) -> Iterator[Sequence[Any]]:
    yield ("metric", "test", "run", "stopped", "value", "lower_bound", "upper_bound", "verdict")
    for one in values:
        yield (one.metric, one.test, one.run_key, one.at.isoformat() if one.at else "", one.value, one.lower,
               one.upper, one.verdict)  # fmt: skip
