"""What each query reads is that of its statement, as docs/warehouse.md says; and no cost grows with history."""

from __future__ import annotations

import os
from itertools import groupby
from pathlib import Path

import pytest

from golden import check
from ml_metrics.core.settings import Settings
from ml_metrics.warehouse.tables import RUN_TABLES
from unit.warehouse.bigquery_cost import HORIZON, MIB, Cost, cost
from unit.warehouse.statements import statements

PAGE = Path(__file__).parents[3] / "docs/warehouse.md"
BEGIN, END = "<!-- queries: made by tests/unit/warehouse/test_bigquery_cost.py -->\n", "<!-- end of queries -->\n"

MONTH = {"since": 30, "scan_from": 40}
NEWEST = {"since": 100, "scan_from": 110}
ONE_RUN = {"since": 1, "until": -1, "scan_from": 11, "scan_to": -11, "newest_from": 11, "other_from": 12}
JUDGE = {"oldest": 100, "scan_from": 110, "earliest": HORIZON}
HISTORY = {"horizon": HORIZON}
KEPT_FOR_BASELINES = {"horizon": 900, "scan_from": 910, "until": HORIZON, "scan_to": HORIZON - 10}
"""What is older than the setting and still there: 500 runs of each test."""
A_MONTH = {"since": 331, "until": 300, "scan_from": 341, "scan_to": 290}
"""Which month it is makes no difference."""

TASK, ALERT, SENDER, DAILY, WEEKLY = (
    "each run",
    "each alert",
    "every 5 minutes",
    "the digest, each hour",
    "the heartbeat",
)
TESTS_PAGE, TEST_PAGE, RUN_PAGE = "the page of all tests", "the page of a test", "the page of a run"
COST_PAGE = "the page of costs"
SMALL_CURVES = "the page of all tests, for each 30 tests in view"
IMPORT = "each page of an import, or of `judge --all`"
NIGHTLY = "the removal of rows, each night"
COMPARISON, MANUAL, CLEARED = "the page of a comparison", "manual commands", "each run that is loaded again"

ASKED: dict[str, tuple[str, dict[str, float]]] = {
    "history.EARLIEST_RUNS": (TASK, {**JUDGE, **HISTORY}),
    "history.RECENT_HISTORY": (TASK, JUDGE),
    "history.OLDER_HISTORY": ("each run with a metric that is rare or new", {**JUDGE, "scan_from": HORIZON}),
    "decisions.ACCEPTANCES": (TASK, {}),
    "decisions.QUARANTINES": (TASK, {}),
    "curves.OF_RUNS": ("each run with a condition on a curve", {"since": 101}),
    "curves.SWEEPS_OF_RUNS": ("each run with a condition in `curves`", {"since": 101}),
    "runs.COLUMNS": ("each run whose level changed", NEWEST),
    "runs.METADATA": ("each run whose level changed", NEWEST),
    "bigquery.EARLIER": (TASK, {}),
    "bigquery.script": (CLEARED, {"first_row": 10}),
    "bigquery.COUNT_ROWS": (CLEARED, {"since": 10}),
    "incidents.OPEN_OF_TEST": (TASK, {}),
    "incidents.NEWEST": (ALERT, {}),
    "incidents.OPEN": (ALERT, {}),
    "incidents.OUTDATED": (ALERT, {}),
    "incidents.CHANGE": (ALERT, {}),
    "incidents.MERGE": (ALERT, {}),
    "incidents.CLOSE": (ALERT, {}),
    "incidents.EXPLAIN": (ALERT, {}),
    "incidents.CLOSED_AGAIN": (ALERT, {}),
    "incidents.ACKNOWLEDGE": (MANUAL, {}),
    "incidents.LAST_CLOSED": (ALERT, {}),
    "incidents.OPENED": (ALERT, {}),
    "incidents.CLOSED": ("the inbox", {"since": 7}),
    "incidents.ASSESSED": ("the inbox", {"since": 30}),
    "incidents.SAY": (MANUAL, {}),
    "incidents.UNDO": (MANUAL, {}),
    "decisions.UNDO": (MANUAL, {}),
    "incidents.SAY_AGAIN": (MANUAL, {}),
    "incidents.OPEN_OF_CAUSE": (ALERT, {}),
    "incidents.TESTS_OF_CAUSE": (ALERT, {}),
    "messages.COUNT": (ALERT, {"since": 1}),
    "messages.PENDING_OF": (ALERT, {}),
    "messages.ADD": (ALERT, {}),
    "messages.TAKE": (ALERT, {}),
    "messages.REVOKE": (ALERT, {}),
    "messages.FINISH": (ALERT, {}),
    "messages.HOLD": (SENDER, {}),
    "messages.BY_KEY": (SENDER, {"since": 30}),
    "messages.DUE_MESSAGES": (ALERT, {"since": 1}),
    "runs.TESTS_SINCE": (ALERT, {"since": 1}),
    "runs.RUNS_SINCE": ("each suspicious run of a test with `rerun`", {"since": 1}),
    "runs.PLACE_OF_LAST_PASSED": (ALERT, HISTORY),
    "runs.OLDEST_OF_TEST": (ALERT, HISTORY),
    "metrics.VALUES": ("each broken metric of an alert, up to 6", NEWEST),
    "messages.MOMENT": (SENDER, {}),
    "messages.DUE": (SENDER, {}),
    "messages.EXISTING": (SENDER, {}),
    "messages.WAITING": (SENDER, {"since": 8}),
    "messages.STATE": (SENDER, {}),
    "messages.UPDATE": (SENDER, {}),
    "messages.ADD_SENDER": (SENDER, {}),
    "known_tests.READ": (DAILY, {}),
    "known_tests.REPLACE": (DAILY, {}),
    "known_tests.ADD": (DAILY, {}),
    "known_tests.READ_PART": (TASK, {}),
    "known_tests.FORGET": (MANUAL, {}),
    "messages.SUMMARISE": (DAILY, {}),
    "messages.OF_OCCASION": (DAILY, {"since": 30}),
    "messages.DEAD": (DAILY, {"since": 8}),
    "runs.LAST_SCHEDULED": (DAILY, {"since": 40}),
    "incidents.ALL_OPEN": (WEEKLY, {}),
    "metrics.OLDEST": (WEEKLY, HISTORY),
    "metrics.OF_NEWEST": (WEEKLY, {"since": HORIZON, "scan_from": HORIZON + 10}),
    "runs.WEEK": (WEEKLY, HISTORY),
    "runs.NEWEST": (SMALL_CURVES, MONTH),
    "curves.VALUES": (SMALL_CURVES, MONTH),
    "runs.TESTS": (TESTS_PAGE, HISTORY),
    "runs.SUMS": ("the page of all tests, by pass rate or goodput", MONTH),
    "runs.BETWEEN_OF_TESTS": (TESTS_PAGE, MONTH),
    "runs.BETWEEN": ("the report, JSON and CSV of more than 1,000 tests", MONTH),
    "metrics.BROKEN": (TESTS_PAGE, MONTH),
    "runs.OF_TEST_WITH_TRIALS": (TEST_PAGE, MONTH),
    "runs.OF_TEST": (ALERT, NEWEST),
    "runs.TEST_OF_DAG": (TEST_PAGE, HISTORY),
    "metrics.BROKEN_OF_TEST": (TEST_PAGE, MONTH),
    "metrics.NAMES_OF_TEST": (TEST_PAGE, {**ONE_RUN, **MONTH, "scan_to": -10}),
    "metrics.OF_TEST": (TEST_PAGE, MONTH),
    "messages.SINCE": (RUN_PAGE, {"since": 30}),
    "runs.PLACE": (RUN_PAGE, HISTORY),
    "runs.PLACE_OF_DAG_RUN": (RUN_PAGE, HISTORY),
    "runs.ROW": (RUN_PAGE, ONE_RUN),
    "runs.METADATA_OF_RUNS": (RUN_PAGE, ONE_RUN),
    "curves.OF_RUN": (RUN_PAGE, ONE_RUN),
    "curves.SWEEPS_OF_RUN": (RUN_PAGE, ONE_RUN),
    "metrics.PAGE_OF_RUN": (RUN_PAGE, ONE_RUN),
    "metrics.COUNT_OF_RUN": (RUN_PAGE, ONE_RUN),
    "metrics.NAMED_OF_RUN": (RUN_PAGE, ONE_RUN),
    "metrics.ONLY_IN": (RUN_PAGE, ONE_RUN),
    "metrics.OF_TESTS": (COMPARISON, MONTH),
    "metrics.NAMES": (COMPARISON, MONTH),
    "runs.NODES": ("the page of nodes; each alert about a metric that is too large", {"since": 60}),
    "metrics.BETWEEN": (COST_PAGE, {"since": 14, "scan_from": 24, "scan_to": -10}),
    "metrics.FIRST_OF_RUNS": ("Prometheus, every 15 minutes at most", {"scan_from": 42}),
    "runs.NEWEST_OF_IMAGE": ("a release by asset", {"since": 90}),
    "messages.NEWEST": (MANUAL, {}),
    "metrics.OF_RUN": (MANUAL, ONE_RUN),
    "metrics.VALUES_WITH_TRIALS": (MANUAL, NEWEST),
    "runs.OLDEST_WITH_TRIALS": (MANUAL, HISTORY),
    "runs.TRIALS": (MANUAL, HISTORY),
    "runs.DEPLOYMENTS": (MANUAL, HISTORY),
    "imports.STORED": (IMPORT, A_MONTH),
    "imports.NOT_JUDGED": (MANUAL, HISTORY),
    "imports.JOBS": (IMPORT, A_MONTH),
    "imports.METADATA": (IMPORT, A_MONTH),
    "metrics.JUDGED_BY_OWNER": (
        "the night; each alarm about a level, with an alert budget",
        {"since": 3, "scan_from": 10, "scan_to": -10},
    ),
    "metrics.SIBLINGS": (
        "each run with a metric of fewer than 30 runs that its level judges",
        {"since": 3, "scan_from": 13, "until": -1, "scan_to": -11},
    ),
    "metrics.JUDGED": (ALERT, {"since": 3, "scan_from": 10, "scan_to": -10}),
    "metrics.OF_RUNS": (IMPORT, A_MONTH),
    "decisions.ACCEPT": (MANUAL, ONE_RUN),
    "decisions.QUARANTINE": (MANUAL, {}),
    "history.NEEDED_RUNS": ("the removal of rows, if `history_days` is 0", KEPT_FOR_BASELINES),
    "old_rows.OLD_RUNS": (NIGHTLY, {"until": HORIZON}),
    "old_rows.TESTS": (NIGHTLY, {"until": HORIZON}),
    "known_tests.READ_ALL": (NIGHTLY, {}),
    "old_rows.REMOVE_INCIDENTS": (NIGHTLY, {"until": HORIZON}),
    "old_rows.REMOVE_MESSAGES": (NIGHTLY, {"until": HORIZON}),
    **{f"old_rows.REMOVE {table.name}": ("each month whose rows are removed", A_MONTH) for table in RUN_TABLES},
    "warehouse.WITHOUT_DEPLOYMENT": ("`schema --claim`, for each 500 runs", {}),
    **{
        f"warehouse.CLAIM {table}": ("`schema --claim`, for each 500 runs", {})
        for table in ("job_history", "metric_history", "curve_history", "curve_points", "acceptances", "alerts")
    },
}
"""Who asks each question, and how many days ago the times are that its parameters stand for."""

GROWING = {"acceptances", "alerts", "known_tests", "messages", "quarantines", "senders"}
"""Small tables without a row for each run: an incident and three messages of each test in each month."""
KNOWN_TO_GROW = {"bigquery.EARLIER": 20.0, "bigquery.script": 20.0, "warehouse": 9999.0}
KNOWN_TO_GROW |= {"old_rows.OLD_RUNS": 40.0, "old_rows.TESTS": 40.0, "history.NEEDED_RUNS": 300.0}
"""What reads all runs, and by how many MiB it may grow in a year: the keys of all runs, before each load; and the runs
that are too old, which are there once, but for those that baselines need."""


def costs(years: int = 1) -> dict[str, Cost]:
    return {name: cost(statement, ASKED[name][1], years) for name, statement in statements().items()}


def test_it_is_known_who_asks_each_question() -> None:
    assert ASKED.keys() == statements().keys()


def test_the_cost_of_each_statement_is_known() -> None:
    check("warehouse/bigquery-costs.txt", _list())


def test_the_table_is_that_of_the_statements() -> None:
    text = PAGE.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    made = f"{before}{BEGIN}{_table()}{END}{after}"
    if os.environ.get("UPDATE_GOLDEN"):
        PAGE.write_text(made)
    assert text == made, "UPDATE_GOLDEN=1 writes the table"


def test_no_question_reaches_the_limit_of_a_job() -> None:
    limit = int(Settings().maximum_bytes_billed)
    assert {
        name: one.billed for name, one in costs(5).items() if one.billed * MIB > limit / 2 and "CLAIM" not in name
    } == {}


@pytest.mark.parametrize("name", statements())
def test_no_cost_grows_with_history(name: str) -> None:
    """From the second year on, a question about runs costs the same."""
    two, five = (cost(statements()[name], ASKED[name][1], years) for years in (2, 5))
    if not set(two.tables) <= GROWING:
        allowed = KNOWN_TO_GROW.get(name, KNOWN_TO_GROW.get(name.partition(".")[0], 0.0))
        small = 12 * len(GROWING.intersection(two.tables))
        assert (five.read - two.read) / 3 / MIB <= allowed + small


def test_a_question_without_a_bound_would_be_found() -> None:
    unbounded = "SELECT metric_value FROM metric_history WHERE uuid = @run"
    assert cost(unbounded, {}, 5).read == pytest.approx(5 * cost(unbounded, {}, 1).read, rel=1e-6)
    bounded = f"{unbounded} AND timestamp >= @since"
    assert cost(bounded, {"since": 30}, 5) == cost(bounded, {"since": 30}, 1)
    assert cost(bounded, {"since": 30}).read < cost(unbounded, {}).read / 5


def test_columns_that_are_not_read_cost_nothing() -> None:
    one, every = "SELECT uuid FROM job_history", "SELECT * FROM job_history"
    assert cost(every, {}).read > 10 * cost(one, {}).read


def _by_asker() -> list[tuple[str, dict[str, Cost]]]:
    """Return the costs of the statements by who asks them, the costliest first."""
    found = costs()
    order = list(dict.fromkeys(asked for asked, _ in ASKED.values()))
    rows = sorted(found, key=lambda name: (order.index(ASKED[name][0]), -found[name].billed, name))
    return [
        (asked, {name: found[name] for name in names})
        for asked, names in groupby(rows, key=lambda name: ASKED[name][0])
    ]


def _list() -> str:
    lines = []
    for asked, found in _by_asker():
        lines.append(f"{asked}:")
        lines += [
            f"  {name}: {one.read / MIB:.1f} MiB read, {one.billed} billed: {', '.join(one.tables)}"
            for name, one in found.items()
        ]
    return "\n".join([*lines, ""])


def _table() -> str:
    lines = ["| asked by | MiB, the costliest query | MiB, all |", "| --- | --- | --- |"]
    for asked, found in _by_asker():
        billed = [one.billed for one in found.values()]
        lines.append(f"| {asked} | {max(billed)} | {sum(billed)} |")
    return "\n".join([*lines, ""])
