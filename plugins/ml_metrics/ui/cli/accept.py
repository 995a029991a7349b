"""Accept a new level of a metric: its baseline restarts with --run, and later runs are compared with the new level.

By default, --run is the first bad run of the open incident about the metric, as for the button of a mail, else the
newest run. A condition that needs ten runs decides nothing until then.

examples:
  ml-metrics accept tf-mnist-example-cpu total_wall_time --reason "more data"
  ml-metrics accept my-test loss_final --run 3f0c2a1b --reason "new image"
"""

from __future__ import annotations

from dataclasses import asdict

from ml_metrics.alerts import levels_of
from ml_metrics.core.model import StoredMetric
from ml_metrics.core.text import printable
from ml_metrics.ui.cli.arguments import Arguments, Parser, UsageError, add_by, add_value
from ml_metrics.ui.cli.chosen_warehouse import add_warehouse, open_chosen, unknown_metric
from ml_metrics.ui.cli.output import give, minute, number
from ml_metrics.warehouse import Warehouse


def add_arguments(parser: Parser) -> None:
    add_value(parser, "test", "TEST", "the name of the test")
    add_value(parser, "metric", "METRIC", "the metric")
    add_value(parser, "--reason", "TEXT", "the reason, for later readers", required=True)
    add_value(parser, "--run", "KEY", "the first run of the new level, by the start of its key; default: see above")
    add_by(parser)
    add_warehouse(parser)


def run(arguments: Arguments) -> int:
    with open_chosen(arguments) as warehouse:
        value = _first_run(warehouse, arguments)
        is_new = warehouse.acceptances.add(value.run_key, arguments.metric, reason=arguments.reason, by=arguments.by)
        accepted = next(
            each
            for each in warehouse.acceptances.of_test(arguments.test)
            if (each.metric, each.run_key) == (arguments.metric, value.run_key)
        )
    done = "Accepted" if is_new else f"Already accepted by {printable(accepted.accepted_by)}"
    level = f"{printable(arguments.metric)} = {number(value.value, value.unit)}"
    line = f"{done}: {level}, run {value.run_key[:8]} of {minute(value.timestamp)}."
    give(arguments, {"accepted": asdict(accepted), "new": is_new}, [line])
    return 0


def _first_run(warehouse: Warehouse, arguments: Arguments) -> StoredMetric:
    test, metric, key = arguments.test, arguments.metric, arguments.run
    stored = warehouse.metrics.values(test, metric, 1000, trials=bool(key))
    values = [value for value in stored if value.value is not None]
    if not values:
        raise unknown_metric(warehouse, test, metric)
    if not key and (incident := warehouse.incidents.find_open(test)) is not None:
        key = levels_of(warehouse, incident).get(metric, "")
    chosen = [value for value in values if value.run_key.startswith(key)] if key else values[:1]
    if len(chosen) != 1:
        count = f"{len(chosen)} runs" if chosen else "no run"
        raise UsageError(f"--run {key}: {count} with a value of {metric!r} begin so; `ml-metrics history` lists runs")
    if chosen[0].trial:
        raise UsageError(
            f"--run {key}: run {chosen[0].run_key[:8]} is a trial with another {chosen[0].trial}, which later runs are "
            "not compared with; change the test file, and accept the level from the first run with the change"
        )
    return chosen[0]
