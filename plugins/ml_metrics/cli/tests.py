"""`ml-metrics tests`: every test and how it stands."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from ml_metrics.cli.chosen_warehouse import add_warehouse, open_chosen
from ml_metrics.cli.output import print_json
from ml_metrics.cli.table import moment, table

if TYPE_CHECKING:
    import argparse

    from ml_metrics.warehouse import TestSummary

ABOUT = """\
Show every test that the warehouse knows, and how its newest run went. Times are UTC.

The result is the run's verdict, or the job's status where that is not `success`. A `!` marks a test that people
were told about and that is not well again.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `tests`."""
    parser.epilog = "examples:\n  ml-metrics tests\n  ml-metrics tests --json"
    add_warehouse(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(arguments: argparse.Namespace) -> int:
    """Print the table."""
    with open_chosen(arguments) as warehouse:
        found = warehouse.tests()
    if arguments.json:
        print_json({"tests": [asdict(test) for test in found]})
    elif not found:
        print("No test has run yet.")
    else:
        print(table(("test", "result", "", "runs", "last run"), [_row(test) for test in found], right=(3,)))
    return 0


def _row(test: TestSummary) -> tuple[str, ...]:
    result = test.job_status if test.job_status != "success" else test.verdict or "-"
    return (test.test, result, "!" if test.alert_open else "", str(test.runs), moment(test.last_run))
