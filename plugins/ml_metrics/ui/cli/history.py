"""Show the runs of a test, newest first, with why each failed, and a curve of each metric from old to new. With
METRIC, show its values, and the bounds by which each was judged. Times are UTC.

Trials are listed and marked, but are not in curves nor in the lines of --jsonl.

examples:
  ml-metrics history tf-mnist-example-cpu
  ml-metrics history tf-mnist-example-cpu total_wall_time --limit 50
  ml-metrics history tf-mnist-example-cpu --jsonl > history.jsonl
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import chain

from ml_metrics.alerts import last_error, why
from ml_metrics.core.model import BROKEN, CURVE_SUFFIX, SWEEP, StoredMetric, TagCurve
from ml_metrics.core.text import printable
from ml_metrics.core.units import duration
from ml_metrics.core.values import END_OF_TIME, finite
from ml_metrics.judge import HistoryNeeds, in_newest_units
from ml_metrics.ui.cli.arguments import Arguments, Parser, add_flag, add_json, add_value, whole_number
from ml_metrics.ui.cli.chosen_warehouse import add_warehouse, open_chosen, require_test, unknown_metric
from ml_metrics.ui.cli.output import WIDTH, give, minute, number, sparkline, table, wrapped
from ml_metrics.ui.dashboard.page import Columns, number_text, shown_of
from ml_metrics.warehouse import JobRow, KnownLevels, Place, Warehouse

HEAD = ("run", "stopped", "status", "verdict", "took", "goodput")
MAX_RUNS_WITH_REASON, MAX_METRICS_WITH_REASON = 50, 20
"""For how many of the newest runs, and by how many judged metrics, the reason is looked for."""
DEFAULT_LIMIT = 20
MAX_LIMIT = 1_000_000
VALUE = Columns(
    "run_key timestamp value lower upper job_status verdict=outcome severity rule baseline_points step non_finite trial"
)
POINT = Columns("metric run_key timestamp value job_status verdict=outcome non_finite")
LINE = Columns(
    "uuid=run_key timestamp test_name=test metric_name=metric metric_value=value job_status verdict=outcome non_finite"
)


def add_arguments(parser: Parser) -> None:
    add_value(parser, "test", "TEST", "the name of the test")
    add_value(parser, "metric", "METRIC", "one of its metrics; default: the runs", nargs="?")
    add_value(
        parser, "--limit", "N", f"how many runs; default: {DEFAULT_LIMIT}, with --jsonl all", whole_number(1, MAX_LIMIT)
    )
    add_warehouse(parser, json=False)
    form = parser.add_mutually_exclusive_group()
    add_json(form)
    add_flag(form, "--jsonl", "print one line of JSON for each value, oldest first")


def run(arguments: Arguments) -> int:
    test, metric = arguments.test, arguments.metric
    with open_chosen(arguments) as warehouse:
        if arguments.jsonl:
            require_test(warehouse, test)
            points = _points(warehouse, test, metric, arguments.limit or MAX_LIMIT)
            _print_lines(points, _curves(warehouse, test, points))
        elif metric is None:
            _print_runs(warehouse, arguments, arguments.limit or DEFAULT_LIMIT)
        else:
            _print_values(warehouse, arguments, arguments.limit or DEFAULT_LIMIT)
    return 0


def _print_runs(warehouse: Warehouse, arguments: Arguments, limit: int) -> None:
    test = arguments.test
    runs = warehouse.runs.newest(test, limit, trials=True)
    if not runs:
        require_test(warehouse, test)
    recent = _points(warehouse, test, None, limit)
    reasons = _reasons(warehouse, test, runs)
    documents = [{**asdict(run), "why": reasons.get(run.uuid, "")} for run in runs]
    by_metric: dict[str, list[StoredMetric]] = defaultdict(list)
    for point in recent:
        by_metric[point.metric].append(point)
    by_metric.pop("", None)
    newest = _newest(warehouse, by_metric)
    units = {metric: one.unit for metric, one in newest.items()}
    values = [
        {
            **POINT.document(one),
            "metric": one.metric or None,  # null for a run without metrics
            "shown": {"value": number_text(one.value, units.get(one.metric, ""))},
        }
        for one in reversed(_in_time(recent))
    ]
    rows, below = [], []
    for run in runs:
        goodput = "-" if run.goodput is None else f"{run.goodput:.1f} %"
        what = (run.job_status, run.verdict or "-", duration(run.job_duration_sec), goodput)
        rows.append((run.uuid[:8], minute(run.timestamp), *what))
        by = f" by {run.started_by}" if run.started_by else ""
        trial = f"a trial{by} with another {run.trial}" if run.trial else ""
        below.append("; ".join(filter(None, (reasons.get(run.uuid), trial))))
    lines = chain([table(HEAD, rows, right=(4, 5), below=below)], _curve_lines(by_metric, newest))
    give(arguments, {"test": test, "runs": documents, "values": values}, lines)


def _newest(warehouse: Warehouse, by_metric: Mapping[str, Sequence[StoredMetric]]) -> dict[str, StoredMetric]:
    """The newest value of each metric, as a whole row where possible: only those have unit, condition and severity."""
    # most metrics have their newest value in the newest run
    ends = _in_time([points[-1] for points in by_metric.values()])
    newest_runs = list(dict.fromkeys(Place(one.run_key, one.test, one.timestamp) for one in ends))[-10:]
    stored = {(run.run_key, row.metric): row for run in newest_runs for row in warehouse.metrics.of_run(run)}
    return {metric: stored.get((points[-1].run_key, metric), points[-1]) for metric, points in by_metric.items()}


def _curve_lines(by_metric: Mapping[str, Sequence[StoredMetric]], newest: Mapping[str, StoredMetric]) -> Iterator[str]:
    """Broken metrics first, then those with a condition, then the others; those that are always 0 are only named."""
    judged = {metric for metric, one in newest.items() if one.rule or one.outcome in BROKEN}
    zeros = sorted(name for name in by_metric.keys() - judged if all(one.value == 0 for one in by_metric[name]))
    rows = [
        (
            metric,
            sparkline([point.value for point in by_metric[metric]], 24),
            number(one.value, one.unit),
            one.verdict_text,
        )
        for metric, one in sorted(
            newest.items(), key=lambda each: (each[1].outcome not in BROKEN, each[0] not in judged, each[0])
        )
        if metric not in zeros
    ]
    if rows:
        yield f"\n{table(('metric', 'curve', 'newest', 'verdict'), rows, right=(2,))}"
    if zeros:
        yield "\n".join(["", *wrapped(f"Always 0: {', '.join(zeros)}")])


def _reasons(warehouse: Warehouse, test: str, runs: Sequence[JobRow]) -> dict[str, str]:
    """Those of the newest runs, with few queries and a folder for each failure."""
    shown = runs[:MAX_RUNS_WITH_REASON]
    if not shown:
        return {}
    of_run = warehouse.metrics.of_runs(test, {run.uuid: run.timestamp for run in shown})
    judged = Counter(row.metric for rows in of_run.values() for row in rows if row.rule or row.outcome in BROKEN)
    names = [name for name, _ in judged.most_common(MAX_METRICS_WITH_REASON)]
    levels = KnownLevels.load(warehouse, test, names, END_OF_TIME, more=len(shown))
    ends = {one.run_key: one.timestamp for values in levels.values.values() for one in values}
    attributes = warehouse.attributes([test], ends)
    return {
        run.uuid: why(
            run,
            of_run[run.uuid],
            error=last_error(run),
            references=levels.references(of_run[run.uuid]),
            attributes=attributes,
        )
        for run in shown
    }


def _print_values(warehouse: Warehouse, arguments: Arguments, limit: int) -> None:
    test, metric = arguments.test, arguments.metric
    values = warehouse.metrics.values(test, metric, limit, trials=True)
    if not values:
        raise unknown_metric(warehouse, test, metric)
    head = ["run", "stopped", "value", "lower", "upper", "verdict"]
    rows: list[tuple[str, ...]] = []
    for value in values:
        numbers = [number(each, value.unit) for each in (value.value, value.lower, value.upper)]
        verdict = f"{value.verdict_text}{', trial' if value.trial else ''}"
        rows.append((value.run_key[:8], minute(value.timestamp), *numbers, verdict))
    if any(value.non_finite for value in values):
        head.append("not finite")
        shares = [number((value.non_finite or 0) * 100, "%") for value in values]
        rows = [(*row, share) for row, share in zip(rows, shares, strict=True)]
    points = in_newest_units(value for value in values if value.trial is None)
    curve = sparkline([point.value for point in reversed(points)], WIDTH)
    document = {
        "test": test,
        "metric": metric,
        "values": [{**VALUE.document(one), "shown": shown_of(one)} for one in values],
    }
    give(arguments, document, [printable(metric), curve, "", table(head, rows, right=(2, 3, 4))])


def _points(warehouse: Warehouse, test: str, metric: str | None, limit: int) -> list[StoredMetric]:
    """Those of the newest runs, oldest first, each metric in the unit of its newest run."""
    points = warehouse.metrics.history(HistoryNeeds(tests=(test,), window=0, recent=limit, earliest=None))
    chosen = [point for point in points if metric in {None, point.metric}]
    if metric is not None and not chosen:
        raise unknown_metric(warehouse, test, metric)
    return in_newest_units(chosen)


def _curves(warehouse: Warehouse, test: str, points: Sequence[StoredMetric]) -> Mapping[tuple[str, str], TagCurve]:
    of_curves = [each for each in points if each.metric.endswith(CURVE_SUFFIX) and not each.metric.startswith(SWEEP)]
    tags = sorted({point.metric.removesuffix(CURVE_SUFFIX) for point in of_curves})
    ends = {point.run_key: point.timestamp for point in of_curves}
    return warehouse.curves.of_runs(sorted(ends), tags, tests=[test], ends=ends)


def _print_lines(points: Sequence[StoredMetric], curves: Mapping[tuple[str, str], TagCurve]) -> None:
    ordered = _in_time(points)
    for point, row in zip(ordered, LINE.documents(ordered), strict=True):
        row["timestamp"] = point.timestamp.isoformat()
        row["metric_name"], row["metric_value"] = point.metric or None, finite(point.value)
        tag = point.metric.removesuffix(CURVE_SUFFIX)
        if tag != point.metric and (curve := curves.get((point.run_key, tag))):
            row["curve"] = curve.document()
        if point.rerun:
            row["rerun"] = point.rerun
        print(json.dumps(row))


def _in_time(points: Sequence[StoredMetric]) -> list[StoredMetric]:
    return sorted(points, key=lambda point: (point.timestamp, point.run_key))
