"""The page that compares several tests and metrics. Its address holds the whole selection and can be shared."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import Any

from ml_metrics.alerts.charts import Axis, comparison_chart, sweep_chart
from ml_metrics.config.collection import known_about
from ml_metrics.core.model import BROKEN, SWEEP, JobStatus, StoredMetric, Sweep
from ml_metrics.core.units import change
from ml_metrics.judge import change_text, compare
from ml_metrics.judge.compare import Compared
from ml_metrics.ui.dashboard.links import BadQueryError, Span, choice, span_of, text, with_query
from ml_metrics.ui.dashboard.one_test_page import charts_script
from ml_metrics.ui.dashboard.page import Columns, NotFoundError, Page, Reader, interval_text, number_text, value_text
from ml_metrics.ui.dashboard.status_letters import is_bad
from ml_metrics.warehouse import JobRow, Place, TestStatus, Warehouse, good_before

MAX_TESTS, MAX_METRICS, MAX_VALUES, MAX_PATTERNS = 20, 20, 20_000, 40
MAX_NAMES = 2000
"""The names that the field for metrics proposes."""
AXES = (Axis.LINEAR.value, Axis.LOG.value)
Table = dict[str, dict[str, str]]
DOCUMENT = Columns("run=run_key test metric at=timestamp value lower upper verdict=outcome")
TABLE = Columns("metric test run=run_key stopped=timestamp value lower_bound=lower upper_bound=upper verdict=outcome")


def page_of_comparison(warehouse: Warehouse, query: Mapping[str, str], reader: Reader) -> Page:
    """The query's `tests` and `metrics` are names separated by commas, with `*` as a wildcard."""
    span, axis = span_of(query, reader.now), Axis(choice(query, "axis", AXES))
    patterns = {name: _patterns(query, name) for name in ("tests", "metrics")}
    seen = reader.tests(warehouse)
    dags, test_names = {one.newest.dag_id for one in seen.values()}, list(seen)
    tests, notices = _matching(test_names, patterns["tests"], MAX_TESTS, "tests")
    metric_names = warehouse.metrics.names(tests, span.since, span.until)
    metrics, more = _matching(metric_names, patterns["metrics"], MAX_METRICS, "metrics")
    values = warehouse.metrics.of_tests(tests, metrics, span.since, span.until, MAX_VALUES + 1)
    if len(values) > MAX_VALUES:
        more.append(f"Only the first {MAX_VALUES:,} values are shown; choose fewer days to see all.")
    values = reader.shown([one for one in values[:MAX_VALUES] if one.dag_id in dags])
    lines: dict[str, dict[str, list[StoredMetric]]] = {metric: defaultdict(list) for metric in metrics}
    for one in values:
        lines[one.metric][one.test].append(one)
    metrics = [metric for metric in metrics if lines[metric]]
    return Page(
        "compare.html",
        {
            "title": "Compare",
            "view": "metrics",
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
        },
        document=lambda: {
            "tests": tests,
            "metrics": metrics,
            "values": [{**DOCUMENT.document(one), "shown": {"value": value_text(one)}} for one in values],
        },
        table=lambda: TABLE.table(values),
    )


def _patterns(query: Mapping[str, str], name: str) -> list[str]:
    patterns = [part.strip() for part in text(query, name, 3000).split(",") if part.strip()]
    if len(patterns) > MAX_PATTERNS:
        raise BadQueryError(f"{name} has more than {MAX_PATTERNS} patterns.")
    return patterns


def _matching(names: Sequence[str], patterns: Sequence[str], maximum: int, kind: str) -> tuple[list[str], list[str]]:
    escaped = [pattern.replace("[", "[[]").replace("?", "[?]") for pattern in patterns]  # only `*` is a wildcard
    found = [name for name in names if any(fnmatchcase(name, pattern) for pattern in escaped)]
    notices = [f"{len(found)} {kind} match; the first {maximum} are shown."] if len(found) > maximum else []
    if patterns and not found:
        notices = [f"No {kind} that you may see match {', '.join(patterns)}."]
    return found[:maximum], notices


def _by_day(values: Sequence[StoredMetric], metric: str, span: Span) -> tuple[list[str], Table]:
    """The days that have a value, newest first, and each test's last value of each day."""
    rows: Table = {}
    for one in values:
        if one.metric == metric:
            day = span.local(one.timestamp).date().isoformat()
            rows.setdefault(one.test, {})[day] = value_text(one)
    return sorted({day for row in rows.values() for day in row}, reverse=True), rows


EFFECT = 2.0
"""The smallest change that matters, in percent."""
SHOWN_SWEEPS = 6
ORDER = ("worse", "better", "undecided", "equivalent")


@dataclass(frozen=True, slots=True)
class Side:
    """One side of the comparison: runs, newest first."""

    title: str
    runs: tuple[JobRow, ...]
    metrics: tuple[StoredMetric, ...]
    curves: Mapping[str, Sequence[Sweep]] = field(default_factory=dict)
    """Those that are judged, by their metric, oldest first."""

    @property
    def newest(self) -> JobRow:
        return self.runs[0]

    @property
    def broken(self) -> set[str]:
        return {one.metric for one in self.metrics if one.outcome in BROKEN}

    @property
    def values(self) -> dict[str, list[float]]:
        """The finite ones of each metric, oldest first."""
        found: dict[str, list[float]] = {}
        for one in sorted(self.metrics, key=lambda one: (one.timestamp, one.run_key)):
            if one.value is not None:
                found.setdefault(one.metric, []).append(one.value)
        return found

    @property
    def measured(self) -> dict[str, Sequence[compare.ValueOrCurve]]:
        return {**self.values, **self.curves}


def compared_single_runs(warehouse: Warehouse, base: Side, candidate: Side) -> list[Compared]:
    """Metrics that got worse or broke first."""
    values = [{metric: found[-1] for metric, found in side.values.items()} for side in (base, candidate)]
    metrics = list(dict.fromkeys([*values[0], *values[1]]))
    is_one_test = base.newest.test_name == candidate.newest.test_name
    before = _earlier(warehouse, base, candidate, metrics) if is_one_test else None
    earlier = before.values if before else {}
    found = []
    for metric in metrics:
        both = values[0].get(metric), values[1].get(metric)
        one = compare.compared_runs(metric, both, earlier.get(metric, ()), EFFECT, known_about(metric, {}))
        if metric in base.curves and metric in candidate.curves:
            two, past = (base.curves[metric][-1], candidate.curves[metric][-1]), before.curves if before else {}
            kind = known_about(metric, {})
            one = compare.compared_curves_of_runs(metric, two, past.get(metric, ()), EFFECT, kind)
        is_known = is_one_test or one.change_percent is None
        found.append(one if is_known else replace(one, reason="the noise is unknown: the runs are of two tests"))

    def rank(one: Compared) -> tuple[int, bool, float, str]:
        broken = one.metric in candidate.broken
        return ORDER.index(one.answer), not broken, -abs(one.change_percent or 0.0), one.metric

    return sorted(found, key=rank)


def _earlier(warehouse: Warehouse, base: Side, candidate: Side, metrics: Sequence[str]) -> Side | None:
    """The successful runs of the 90 days before both."""
    first, test = min(base.newest.timestamp, candidate.newest.timestamp), base.newest.test_name
    runs = warehouse.runs.of_test(test, first - timedelta(days=90), first, compare.MOST_RUNS)
    if not runs:
        return None
    good = [run for run in runs if run.job_status == JobStatus.SUCCESS]
    keys = {run.uuid for run in good}
    rows = warehouse.metrics.of_test(test, metrics, runs[-1].timestamp, first)
    values = tuple(row for row in rows if row.run_key in keys)
    return Side("", tuple(runs), values, _curves(warehouse, good, values))


def _curves(warehouse: Warehouse, runs: Sequence[JobRow], metrics: Sequence[StoredMetric]) -> dict[str, list[Sweep]]:
    """The judged curves of some runs of one test, by their metric, oldest first."""
    ends = {run.uuid: run.timestamp for run in reversed(runs)}
    names = sorted({row.metric.removeprefix(SWEEP) for row in metrics if row.metric.startswith(SWEEP)})
    if not names or not ends:
        return {}
    stored = warehouse.curves.sweeps_of_runs(list(ends), names, tests=[runs[0].test_name], ends=ends)
    found = {f"{SWEEP}{name}": [stored[run, name] for run in ends if (run, name) in stored] for name in names}
    return {metric: curves for metric, curves in found.items() if curves}


KINDS = ("runs", "images", "tests")
MAX_RUNS, MOST_METRICS = 30, 100
"""The newest runs of each side, and the metrics that are compared: exact tests of more would take seconds."""


def page_of_two(warehouse: Warehouse, query: Mapping[str, str], reader: Reader) -> Page:
    """`base` and `candidate` are keys of runs, images of the test `test`, or names of tests.

    Without them, the newest run is compared with the good run before it: that of `test`, or else of the test that
    failed last.
    """
    tests = reader.tests(warehouse)
    kind, test = choice(query, "kind", KINDS), text(query, "test")
    names = text(query, "base"), text(query, "candidate")
    if any(names) and not all(names):
        raise BadQueryError("base and candidate are needed, both.")
    if not any(names):
        kind, test, names = _sensible(warehouse, tests, test, reader)
    sides: list[Side] = []
    if all(names):
        sides = list(_sides(warehouse, kind, names, test, query=query, tests=tests, reader=reader))
    found: list[Compared] = []
    if sides and kind == "runs":
        found = compared_single_runs(warehouse, *sides)
    elif sides:
        found = compare.compare_repeats(sides[0].measured, sides[1].measured, EFFECT, {})
        found.sort(key=lambda one: (ORDER.index(one.answer), one.metric not in sides[1].broken, one.metric))
    differing, equal = _attributes(warehouse, sides) if sides else ([], 0)
    over = [metric for metric in sides[1].curves if metric in sides[0].curves][:SHOWN_SWEEPS] if sides else []
    # the newest curve of the candidate over the range of those of the base
    drawn = [
        (f"sweep-{at}", sweep_chart(sides[1].curves[metric][-1], sides[0].curves[metric]))
        for at, metric in enumerate(over)
    ]
    curves = with_query("curves", run=names[1], **{"with": names[0]}) if kind == "runs" and sides else ""
    return Page(
        "compare.html",
        {
            "title": "Compare",
            "view": "two",
            "kind": kind,
            "kinds": KINDS,
            "base": names[0],
            "candidate": names[1],
            "test": test,
            "tests": sorted(tests)[:2000],
            "sides": sides,
            "found": found,
            "judged": {one.metric: one for one in sides[1].metrics} if kind == "runs" and sides else {},
            "differing": differing,
            "equal": equal,
            "effect": EFFECT,
            "curves_address": curves,
            "sweeps": over,
            **({"charts": charts_script(drawn, {})} if curves or over else {}),
        },
        document=lambda: {
            "kind": kind, "base": names[0], "candidate": names[1],
            "differences": [{"name": name, "base": was, "candidate": now} for name, was, now, _ in differing],
            "metrics": [{"metric": one.metric, **one.document(), "shown": _shown(one)} for one in found],
        },
        table=lambda: _rows_of_two(found),
    )  # fmt: skip


def _sensible(
    warehouse: Warehouse, tests: Mapping[str, TestStatus], test: str, reader: Reader
) -> tuple[str, str, tuple[str, str]]:
    """The newest run and the good run before it, of the given test or of the one that failed last."""
    if test and test not in tests:
        raise NotFoundError(f"There is no test {test!r}, or no run of it was recorded.")
    of_test = [tests[test]] if test else list(tests.values())
    newest = max(of_test, key=lambda one: (is_bad(one.newest), one.newest.at), default=None)
    if newest is None:
        return "runs", test, ("", "")
    run = newest.newest
    place = Place(run.run_key, run.test, run.at)
    found = warehouse.metrics.page_of_run(place, MOST_METRICS) if run.job_status == JobStatus.SUCCESS else []
    good = good_before(warehouse, place, reader.shown(found))
    return "runs", run.test, (good.run_key, run.run_key) if good else ("", "")


def _sides(
    warehouse: Warehouse,
    kind: str,
    names: tuple[str, str],
    test: str,
    *,
    query: Mapping[str, str],
    tests: Mapping[str, TestStatus],
    reader: Reader,
) -> Iterator[Side]:
    span = span_of(query, reader.now, 90)
    if kind == "images" and test not in tests:
        raise NotFoundError(f"There is no test {test!r}, or no run of it was recorded.")
    listed = warehouse.runs.of_test(test, span.since, span.until, 1000) if kind == "images" else []
    for name in names:
        if kind == "runs":
            run = warehouse.runs.get(name)
            if run is None or run.dag not in reader.readable({run.dag}):
                raise NotFoundError(f"There is no run {name}, or you may not see it.")
            runs = [run]
            metrics = warehouse.metrics.page_of_run(run.place, MOST_METRICS)
        else:
            if kind == "tests" and name not in tests:
                raise NotFoundError(f"There is no test {name!r}, or you may not see it.")
            whole = (
                [run for run in listed if run.image == name]
                if kind == "images"
                else warehouse.runs.of_test(name, span.since, span.until, MAX_RUNS)
            )
            runs = whole[:MAX_RUNS]
            if not runs:
                raise NotFoundError(f"No run of {name!r} stopped between {span.first} and {span.last}.")
            of = test if kind == "images" else name
            first = [row.metric for row in warehouse.metrics.page_of_run(runs[0].place, MOST_METRICS)]
            keys = {run.uuid for run in runs}
            read = warehouse.metrics.of_test(of, first, runs[-1].timestamp, span.until)
            metrics = [one for one in read if one.run_key in keys][:20_000]
        title = f"{runs[0].test_name} {runs[0].timestamp:%Y-%m-%d %H:%M}" if kind == "runs" else name
        yield Side(title, tuple(runs), tuple(reader.shown(metrics)), _curves(warehouse, runs, metrics))


def _attributes(warehouse: Warehouse, sides: Sequence[Side]) -> tuple[list[tuple[str, str, str, str]], int]:
    runs = [side.newest for side in sides]
    ends = {run.uuid: run.timestamp for run in runs}
    found = warehouse.attributes(sorted({run.test_name for run in runs}), ends)
    was, now = (found[run.uuid] for run in runs)
    names = sorted({*was, *now})
    differing = []
    for name in names:
        before, after = was.get(name), now.get(name)
        if (before or "") != (after or ""):
            text = change_text(name, before, after)
            is_secret = text.endswith("(values not shown)")
            differing.append((name, "" if is_secret else before or "", "" if is_secret else after or "", text))
    return differing, len(names) - len(differing)


def _shown(one: Compared) -> dict[str, str]:
    return {
        "base": number_text(one.base.level, one.unit),
        "candidate": number_text(one.candidate.level, one.unit),
        "change": change(one.change_percent),
        "interval": interval_text(one.interval),
    }


def _rows_of_two(found: Sequence[Compared]) -> Iterator[Sequence[Any]]:
    yield ("metric", "verdict", "base_median", "candidate_median", "change_percent", "low", "high", "certainty",
           "reason")  # fmt: skip
    for one in found:
        low, high = one.interval or (None, None)
        yield (one.metric, one.answer.value, one.base.level, one.candidate.level, one.change_percent, low, high,
               one.certainty, one.reason)  # fmt: skip
