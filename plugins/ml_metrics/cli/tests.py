"""`ml-metrics tests`: every test and how it stands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ml_metrics.cli.chosen_warehouse import add_warehouse, open_chosen
from ml_metrics.cli.output import print_json
from ml_metrics.cli.table import moment, table

if TYPE_CHECKING:
    import argparse
    from typing import Any

    from ml_metrics.warehouse import TestStatus

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
        found, incidents = warehouse.runs.tests(), warehouse.incidents.all_open()
    if arguments.json:
        print_json({"tests": [_document(test, alert_open=test.newest.test in incidents) for test in found]})
    elif not found:
        print("No test has run yet.")
    else:
        rows = [_row(test, alert_open=test.newest.test in incidents) for test in found]
        print(table(("test", "result", "", "runs", "last run"), rows, right=(3,)))
    return 0


def _row(status: TestStatus, *, alert_open: bool) -> tuple[str, ...]:
    newest = status.newest
    result = newest.job_status if newest.job_status != "success" else newest.verdict or "-"
    return (newest.test, result, "!" if alert_open else "", str(status.runs), moment(newest.at))


def _document(status: TestStatus, *, alert_open: bool) -> dict[str, Any]:
    newest = status.newest
    return {
        "test": newest.test,
        "runs": status.runs,
        "last_run": newest.at,
        "job_status": newest.job_status,
        "verdict": newest.verdict,
        "owner": status.owner or None,
        "alert_open": alert_open,
    }
