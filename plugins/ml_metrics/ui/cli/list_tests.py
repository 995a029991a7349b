"""List every recorded test with the result of its newest run. Times are UTC.

The result is the verdict of the run, or the status of its job where that is not `success`; below a bad one is why. A
`!` marks a test with an open alert. Trials are counted apart.

examples:
  ml-metrics tests
  ml-metrics tests --json
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ml_metrics.alerts import MOST_COUNTED, last_error, short_name, why
from ml_metrics.core.model import JobStatus, Outcome
from ml_metrics.core.text import printable
from ml_metrics.ui.cli.chosen_warehouse import HOW_TO_RECORD, NothingRecordedError, add_warehouse, open_chosen
from ml_metrics.ui.cli.output import minute, print_json, table
from ml_metrics.warehouse import DEFINITION, Place

if TYPE_CHECKING:
    import argparse
    from typing import Any

    from ml_metrics.warehouse import RunSummary, TestStatus, Warehouse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `tests`."""
    add_warehouse(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the table."""
    nothing = f"no run was recorded yet; {HOW_TO_RECORD}"
    try:
        with open_chosen(arguments) as warehouse:
            found, incidents, trials = warehouse.runs.tests(), warehouse.incidents.all_open(), warehouse.runs.trials()
            known = warehouse.known_tests.read().tests
            reasons = {status.newest.test: _reason(warehouse, status.newest) for status in filter(_is_bad, found)}
    except NothingRecordedError as error:
        found, incidents, trials, known, reasons, nothing = [], {}, {}, {}, {}, str(error)
    problems = {name: sorted(test.problems) for name, test in known.items() if test.problems}
    documents = [
        {
            **_document(status, alert_open=not incidents.keys().isdisjoint(_incidents_of(status.newest.test))),
            "why": reasons.get(status.newest.test, ""),
        }
        for status in found
    ]
    if arguments.json:
        print_json({"tests": documents, "trials": trials, "not_running": problems})
    elif documents:
        below = [document["why"] for document in documents]
        print(table(("test", "result", "", "runs", "last run"), list(map(_row, documents)), right=(3,), below=below))
    elif not trials:
        print(f"{nothing[0].upper()}{nothing[1:]}.")
    if trials and not arguments.json:
        counts = ", ".join(f"{printable(test)} {count}" for test, count in sorted(trials.items()))
        print(f"Trials, which are not counted above: {counts}.")
    for test, names in sorted(problems.items() if not arguments.json else ()):
        print(f"{printable(test)} does not run as defined: {', '.join(map(short_name, names))}")
    return 0


def _is_bad(status: TestStatus) -> bool:
    return status.newest.job_status != JobStatus.SUCCESS or status.newest.verdict == Outcome.FAIL


def _reason(warehouse: Warehouse, newest: RunSummary) -> str:
    place = Place(newest.run_key, newest.test, newest.at)
    run = warehouse.runs.get(place)
    return why(newest, warehouse.metrics.page_of_run(place, MOST_COUNTED), error=last_error(run) if run else "")


def _incidents_of(test: str) -> tuple[str, str]:
    return test, f"{DEFINITION}{test}"


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


def _row(document: dict[str, Any]) -> tuple[str, ...]:
    result = document["job_status"] if document["job_status"] != "success" else document["verdict"] or "-"
    mark = "!" if document["alert_open"] else ""
    return (document["test"], result, mark, str(document["runs"]), minute(document["last_run"]))
