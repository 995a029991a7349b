"""List every recorded test with the result of its newest run: the verdict, or the status of its job where that is not
`success`; below a bad one is why. A `!` marks an open alert. Trials are counted apart. Times are UTC.

examples:
  ml-metrics tests
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping
from typing import Any

from ml_metrics.alerts import MOST_COUNTED, last_error, why
from ml_metrics.core.model import JobStatus, Outcome
from ml_metrics.core.text import printable
from ml_metrics.core.values import END_OF_TIME
from ml_metrics.ui.cli.arguments import Arguments, Parser
from ml_metrics.ui.cli.chosen_warehouse import HOW_TO_RECORD, NothingRecordedError, add_warehouse, open_chosen
from ml_metrics.ui.cli.output import give, minute, table, wrapped
from ml_metrics.ui.dashboard.page import Columns, not_running
from ml_metrics.ui.dashboard.status_letters import baselines_of
from ml_metrics.warehouse import DEFINITION, Place, RunSummary, TestStatus, Warehouse

TEST = Columns("test=newest.test last_run=newest.at job_status=newest.job_status verdict=newest.verdict")


def add_arguments(parser: Parser) -> None:
    add_warehouse(parser)


def run(arguments: Arguments) -> int:
    nothing, runs = f"no run was recorded yet; {HOW_TO_RECORD}", Counter[str]()
    try:
        with open_chosen(arguments) as warehouse:
            found, incidents, trials = warehouse.runs.tests(), warehouse.incidents.all_open(), warehouse.runs.trials()
            known = warehouse.known_tests.read().tests
            for one in warehouse.runs.sums(warehouse.database.store.horizon, END_OF_TIME):
                runs[one.test] += one.runs
            reasons = {status.newest.test: _reason(warehouse, status.newest) for status in found}
    except NothingRecordedError as error:
        found, incidents, trials, known, reasons, nothing = [], {}, {}, {}, {}, str(error)
    problems = {name: sorted(test.problems) for name, test in known.items() if test.problems}
    documents = [_document(status, runs, incidents) | {"why": reasons[status.newest.test]} for status in found]
    lines = []
    if documents:
        below = [document["why"] for document in documents]
        head = ("test", "result", "", "runs", "last run")
        lines.append(table(head, list(map(_row, documents)), right=(3,), below=below))
    elif not trials:
        lines.append(f"{nothing[0].upper()}{nothing[1:]}.")
    if trials:
        counts = ", ".join(f"{printable(test)} {count}" for test, count in sorted(trials.items()))
        lines.append(f"Trials, which are not counted above: {counts}.")
    lines += [line for one in not_running(problems) for line in wrapped(one)]
    give(arguments, {"tests": documents, "trials": trials, "not_running": problems}, lines)
    return 0


def _reason(warehouse: Warehouse, newest: RunSummary) -> str:
    if newest.job_status == JobStatus.SUCCESS and newest.verdict != Outcome.FAIL:
        return ""
    place = Place(newest.run_key, newest.test, newest.at)
    run = warehouse.runs.get(place)
    rows = warehouse.metrics.page_of_run(place, MOST_COUNTED)
    return why(newest, rows, error=last_error(run) if run else "", references=baselines_of(rows))


def _document(status: TestStatus, runs: Mapping[str, int], incidents: Container[str]) -> dict[str, Any]:
    test = status.newest.test
    alert = test in incidents or f"{DEFINITION}{test}" in incidents
    return {**TEST.document(status), "runs": runs[test], "owner": status.owner or None, "alert_open": alert}


def _row(document: dict[str, Any]) -> tuple[str, ...]:
    result = document["job_status"] if document["job_status"] != "success" else document["verdict"] or "-"
    mark = "!" if document["alert_open"] else ""
    return (document["test"], result, mark, str(document["runs"]), minute(document["last_run"]))
