"""The page that compares two runs, two images of a test, or two tests: what differs, and how certain that is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ml_metrics.dashboard.chart_data import charts_script
from ml_metrics.dashboard.compared_sides import EFFECT, Side, compared_arms, compared_single_runs
from ml_metrics.dashboard.links import with_query
from ml_metrics.dashboard.other_tests import without_unreadable
from ml_metrics.dashboard.page import NotFoundError, Page
from ml_metrics.dashboard.query import BadQueryError, choice, span_of, text
from ml_metrics.judge.attributes import change_text
from ml_metrics.model import JobStatus
from ml_metrics.warehouse.record import Place
from ml_metrics.warehouse.references import good_before

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ml_metrics.compare.answer import Compared
    from ml_metrics.dashboard.reader import Reader
    from ml_metrics.warehouse import TestStatus, Warehouse

KINDS = ("runs", "images", "tests")
MAX_RUNS, MAX_METRICS = 30, 100
"""The newest runs of each side, and the metrics that are compared: exact tests of more would take seconds."""
MAX_VALUES = 20_000
BAD_VERDICTS = ("fail",)
NOT_SHOWN = "(values not shown)"
"""The end of a change whose values may be secret."""


def page_of_two(warehouse: Warehouse, query: Mapping[str, str], reader: Reader) -> Page:
    """Return the page for `base` and `candidate`: keys of runs, images of the test `test`, or names of tests.

    Without them, the newest run is compared with the good run before it: that of `test`, or else of the test that
    failed last.
    """
    statuses = warehouse.runs.tests()
    dags = reader.readable({one.newest.dag_id for one in statuses})
    tests = {one.newest.test: one for one in statuses if one.newest.dag_id in dags}
    kind, test = choice(query, "kind", KINDS), text(query, "test")
    names = text(query, "base"), text(query, "candidate")
    if any(names) and not all(names):
        raise BadQueryError("base and candidate are needed, both.")
    if not any(names):
        kind, test, names = _sensible(warehouse, tests, test, reader)
    sides: list[Side] = []
    if all(names):
        sides = list(_sides(warehouse, kind, names, test, query=query, tests=tests, reader=reader))
    found = [] if not sides else compared_single_runs(warehouse, *sides) if kind == "runs" else compared_arms(*sides)
    differing, equal = _attributes(warehouse, sides) if sides else ([], 0)
    curves = with_query("curves", run=names[1], **{"with": names[0]}) if kind == "runs" and sides else ""
    return Page(
        "compare_two.html",
        {
            "title": "Compare",
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
            "charts": charts_script([], {}),
            "links": reader.links,
        },
        document=lambda: {
            "kind": kind, "base": names[0], "candidate": names[1],
            "differences": [{"name": name, "base": was, "candidate": now} for name, was, now, _ in differing],
            "metrics": [{"metric": one.metric, **one.document()} for one in found],
        },
        table=lambda: _table(found),
    )  # fmt: skip


def _sensible(
    warehouse: Warehouse, tests: Mapping[str, TestStatus], test: str, reader: Reader
) -> tuple[str, str, tuple[str, str]]:
    """Return the newest run and the good run before it, of the given test or of the one that failed last."""
    if test and test not in tests:
        raise NotFoundError(f"There is no test {test!r}, or no run of it was recorded.")
    of_test = [tests[test]] if test else list(tests.values())
    newest = max(of_test, key=lambda one: (_is_bad(one), one.newest.at), default=None)
    if newest is None:
        return "runs", test, ("", "")
    run = newest.newest
    place = Place(run.run_key, run.test, run.at)
    found = warehouse.metrics.page_of_run(place, MAX_METRICS) if run.job_status == JobStatus.SUCCESS else []
    good = good_before(warehouse, place, without_unreadable(found, reader.readable)[0])
    return "runs", run.test, (good.run_key, run.run_key) if good else ("", "")


def _is_bad(status: TestStatus) -> bool:
    return status.newest.job_status != JobStatus.SUCCESS or status.newest.verdict in BAD_VERDICTS


def _sides(  # noqa: PLR0913  (independent facts)
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
            if run is None or (run.dag_id or run.test_name) not in reader.readable({run.dag_id or run.test_name}):
                raise NotFoundError(f"There is no run {name}, or you may not see it.")
            runs = [run]
            metrics = warehouse.metrics.page_of_run(run.place, MAX_METRICS)
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
            first = [row.metric for row in warehouse.metrics.page_of_run(runs[0].place, MAX_METRICS)]
            keys = {run.uuid for run in runs}
            read = warehouse.metrics.of_test(of, first, runs[-1].timestamp, span.until)
            metrics = [one for one in read if one.run_key in keys][:MAX_VALUES]
        shown, _ = without_unreadable(metrics, reader.readable)
        title = f"{runs[0].test_name} {runs[0].timestamp:%Y-%m-%d %H:%M}" if kind == "runs" else name
        yield Side(title, tuple(runs), tuple(shown))


def _attributes(warehouse: Warehouse, sides: Sequence[Side]) -> tuple[list[tuple[str, str, str, str]], int]:
    """Return what differs between the newest runs of both sides, and how many attributes are equal."""
    runs = [side.newest for side in sides]
    ends = {run.uuid: run.timestamp for run in runs}
    found = warehouse.attributes(sorted({run.test_name for run in runs}), ends)
    was, now = (found[run.uuid] for run in runs)
    names = sorted({*was, *now})
    differing = [
        (name, was.get(name, ""), now.get(name, ""), change_text(name, was.get(name), now.get(name), "→"))
        for name in names
        if was.get(name, "") != now.get(name, "")
    ]
    hidden = [(n, "", "", t) if t.endswith(NOT_SHOWN) else (n, a, b, t) for n, a, b, t in differing]
    return hidden, len(names) - len(hidden)


def _table(found: Sequence[Compared]) -> Iterator[Sequence[Any]]:
    yield (
        "metric",
        "verdict",
        "base_median",
        "candidate_median",
        "change_percent",
        "low",
        "high",
        "certainty",
        "reason",
    )
    for one in found:
        low, high = one.interval or (None, None)
        yield (one.metric, one.answer.value, one.base.level, one.candidate.level, one.change_percent, low, high,
               one.certainty, one.reason)  # fmt: skip
