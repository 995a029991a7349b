"""The page that compares several tests and metrics. Its address holds the whole selection and can be shared."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from ml_metrics.charts import Axis, comparison_chart
from ml_metrics.dashboard.chart_data import charts_script
from ml_metrics.dashboard.formatting import value_text
from ml_metrics.dashboard.other_tests import without_unreadable
from ml_metrics.dashboard.page import Page
from ml_metrics.dashboard.query import BadQueryError, choice, span_of, text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ml_metrics.dashboard.query import Span
    from ml_metrics.dashboard.reader import Reader
    from ml_metrics.model import StoredMetric
    from ml_metrics.warehouse import Warehouse

MAX_TESTS, MAX_METRICS, MAX_VALUES, MAX_PATTERNS = 20, 20, 20_000, 40
MAX_LIST_LENGTH = 3000
MAX_NAMES = 2000
"""The names that the field for metrics proposes."""
AXES = (Axis.LINEAR.value, Axis.LOG.value)
Table = dict[str, dict[str, str]]


def page_of_comparison(warehouse: Warehouse, query: Mapping[str, str], reader: Reader) -> Page:
    """Return the page for the query's `tests` and `metrics`: names separated by commas, with `*` as a wildcard."""
    span, axis = span_of(query, reader.now), Axis(choice(query, "axis", AXES))
    patterns = {name: _patterns(query, name) for name in ("tests", "metrics")}
    statuses = warehouse.runs.tests()
    dags = reader.readable({one.newest.dag_id for one in statuses})
    test_names = [one.newest.test for one in statuses if one.newest.dag_id in dags]
    tests, notices = _matching(test_names, patterns["tests"], MAX_TESTS, "tests")
    metric_names = warehouse.metrics.names(tests, span.since, span.until)
    metrics, more = _matching(metric_names, patterns["metrics"], MAX_METRICS, "metrics")
    values = warehouse.metrics.of_tests(tests, metrics, span.since, span.until, MAX_VALUES + 1)
    if len(values) > MAX_VALUES:
        more.append(f"Only the first {MAX_VALUES:,} values are shown; choose fewer days to see all.")
    values, _ = without_unreadable([one for one in values[:MAX_VALUES] if one.dag_id in dags], reader.readable)
    metrics = [metric for metric in metrics if any(one.metric == metric for one in values)]
    lines = _lines(values)
    return Page(
        "compare.html",
        {
            "title": "Compare",
            "span": span,
            "notices": notices + more,
            "tests": ",".join(patterns["tests"]),
            "metrics": ",".join(patterns["metrics"]),
            "axis": axis.value,
            "axes": AXES,
            "test_names": test_names,
            "metric_names": metric_names[:MAX_NAMES],
            "comparisons": [(index, metric, *_by_day(values, metric, span)) for index, metric in enumerate(metrics)],
            "charts": charts_script(
                [
                    (f"chart-{index}", comparison_chart(lines[metric], axis=axis, utc=span.is_utc))
                    for index, metric in enumerate(metrics)
                ],
                {one.run_key: reader.links.run(one.run_key, one.test) for one in values},
            ),
            "links": reader.links,
        },
        document=lambda: {"tests": tests, "metrics": metrics, "values": [_value(one) for one in values]},
        table=lambda: _table(values),
    )


def _patterns(query: Mapping[str, str], name: str) -> list[str]:
    patterns = [part.strip() for part in text(query, name, MAX_LIST_LENGTH).split(",") if part.strip()]
    if len(patterns) > MAX_PATTERNS:
        raise BadQueryError(f"{name} has more than {MAX_PATTERNS} patterns.")
    return patterns


def _matching(names: Sequence[str], patterns: Sequence[str], maximum: int, kind: str) -> tuple[list[str], list[str]]:
    """Return the names that match a pattern, and a notice if there are none or too many."""
    found = [name for name in names if any(fnmatchcase(name, _pattern(one)) for one in patterns)]
    if patterns and not found:
        return [], [f"No {kind} that you may see match {', '.join(patterns)}."]
    if len(found) > maximum:
        return found[:maximum], [f"{len(found)} {kind} match; the first {maximum} are shown."]
    return found, []


def _pattern(text: str) -> str:
    """Escape the wildcards of `fnmatch` except `*`."""
    return text.replace("[", "[[]").replace("?", "[?]")


def _lines(values: Sequence[StoredMetric]) -> dict[str, dict[str, list[StoredMetric]]]:
    lines: dict[str, dict[str, list[StoredMetric]]] = {}
    for one in values:
        lines.setdefault(one.metric, {}).setdefault(one.test, []).append(one)
    return lines


def _by_day(values: Sequence[StoredMetric], metric: str, span: Span) -> tuple[list[str], Table]:
    """Return the days that have a value, newest first, and each test's last value of each day."""
    rows: Table = {}
    for one in values:
        if one.metric == metric:
            day = span.local(one.timestamp).date().isoformat()
            rows.setdefault(one.test, {})[day] = value_text(one)
    return sorted({day for row in rows.values() for day in row}, reverse=True), rows


def _value(one: StoredMetric) -> dict[str, Any]:
    return {
        "run": one.run_key, "test": one.test, "metric": one.metric, "at": one.timestamp, "value": one.value,
        "lower": one.lower, "upper": one.upper, "verdict": one.outcome,
    }  # fmt: skip


def _table(values: Sequence[StoredMetric]) -> Iterator[Sequence[Any]]:
    yield ("metric", "test", "run", "stopped", "value", "lower_bound", "upper_bound", "verdict")
    for one in values:
        yield (one.metric, one.test, one.run_key, one.timestamp.isoformat(), one.value, one.lower,
               one.upper, one.outcome)  # fmt: skip
