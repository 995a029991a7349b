"""`ml-metrics history`: the runs of a test, or the values of one of its metrics."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from ml_metrics.cli.chosen_warehouse import add_warehouse, open_chosen
from ml_metrics.cli.output import print_json
from ml_metrics.cli.table import WIDTH, duration, moment, number, plain, sparkline, table

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from ml_metrics.model import HistoryPoint
    from ml_metrics.warehouse import JobRow, MetricValue, Warehouse

ABOUT = """\
Show the runs of a test, newest first, with a curve of each of its metrics; or the values of one metric, with the
bounds that each was judged by. Times are UTC; curves run from old to new.
"""
CURVE = 24


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `history`."""
    parser.epilog = (
        "examples:\n"
        "  ml-metrics history tf-mnist-example-cpu\n"
        "  ml-metrics history tf-mnist-example-cpu total_wall_time --limit 50"
    )
    parser.add_argument("test", metavar="TEST")
    parser.add_argument("metric", metavar="METRIC", nargs="?")
    parser.add_argument("--limit", type=int, default=20, metavar="N", help="how many runs, default 20")
    add_warehouse(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(arguments: argparse.Namespace) -> int:
    """Print the runs, or the values."""
    limit = max(1, arguments.limit)
    with open_chosen(arguments) as warehouse:
        if arguments.metric is None:
            return _runs(warehouse, arguments.test, limit, as_json=arguments.json)
        return _values(warehouse, arguments.test, arguments.metric, limit, as_json=arguments.json)


def _runs(warehouse: Warehouse, test: str, limit: int, *, as_json: bool) -> int:
    from ml_metrics.judge import HistoryNeeds

    runs = warehouse.runs.newest(test, limit)
    if as_json:
        print_json({"test": test, "runs": [asdict(run) for run in runs]})
        return 0 if runs else 1
    if not runs:
        print(f"{plain(test)} has no runs. `ml-metrics tests` lists the tests that have.")
        return 1
    head = ("run", "stopped", "status", "verdict", "took", "goodput", "why")
    print(table(head, [_run_row(run) for run in runs], right=(4, 5)))
    recent = warehouse.metrics.history(HistoryNeeds(tests=(test,), window=0, recent=limit, earliest=None))
    if metrics := sorted({point.metric for point in recent if point.metric}):
        curves = [_curve_row(metric, [point for point in recent if point.metric == metric]) for metric in metrics]
        print()
        print(table(("metric", "curve", "newest", "verdict"), curves, right=(2,)))
    return 0


def _run_row(run: JobRow) -> tuple[str, ...]:
    return (
        run.uuid[:8],
        moment(run.timestamp),
        run.job_status,
        run.verdict or "-",
        duration(run.job_duration_sec),
        "-" if run.goodput is None else f"{run.goodput:.1f}%",
        run.failure_reason or "",
    )


def _curve_row(metric: str, points: Sequence[HistoryPoint]) -> tuple[str, ...]:
    newest = points[-1]
    curve = sparkline([point.value for point in points], CURVE)
    return (metric, curve, number(newest.value), str(newest.outcome or "-"))


def _values(warehouse: Warehouse, test: str, metric: str, limit: int, *, as_json: bool) -> int:
    values = warehouse.metrics.values(test, metric, limit)
    if as_json:
        print_json({"test": test, "metric": metric, "values": [asdict(value) for value in values]})
        return 0 if values else 1
    if not values:
        print(f"{plain(test)} has no metric {plain(metric)}. `ml-metrics history {plain(test)}` lists those it has.")
        return 1
    print(plain(metric))
    print(sparkline([value.value for value in reversed(values)], WIDTH))
    print()
    head = ("run", "stopped", "value", "lower", "upper", "verdict")
    print(table(head, [_value_row(value) for value in values], right=(2, 3, 4)))
    return 0


def _value_row(value: MetricValue) -> tuple[str, ...]:
    return (
        value.run_key[:8],
        moment(value.timestamp),
        number(value.value),
        number(value.lower),
        number(value.upper),
        value.verdict or "-",
    )
