"""Show the cost of runs, by test, by owner, and by reason. Trials are included.

The prices are those of the time when a run ended. Without a price book there are chip hours only (docs/goodput.md).

examples:
  ml-metrics cost
  ml-metrics cost --owner vision-team --week 2026-W47
  ml-metrics cost --csv > runs.csv
  ml-metrics cost --week 2026-W47 --billing export.jsonl
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

from ml_metrics.core.money import money_of, texts_of
from ml_metrics.core.text import counted
from ml_metrics.core.units import readable
from ml_metrics.core.values import BEGINNING_OF_TIME, END_OF_TIME, start_of_day
from ml_metrics.measure import efficiency
from ml_metrics.measure.efficiency import Bill, Billed, RunCost
from ml_metrics.ui.cli.arguments import Arguments, Parser, UsageError, add_flag, add_json, add_value
from ml_metrics.ui.cli.chosen_warehouse import add_warehouse, open_chosen, require_test
from ml_metrics.ui.cli.inputs import read_text
from ml_metrics.ui.cli.output import give, minute, print_json, table

Cells = tuple[str, ...]
WEEK = timedelta(days=7)


def add_arguments(parser: Parser) -> None:
    add_value(parser, "test", "TEST", "its runs, one by one", nargs="?")
    add_value(parser, "--owner", "NAME", "only the runs of this owner")
    add_value(parser, "--week", "WEEK", "such as 2026-W47; default: the last seven days", _monday)
    about = "Google Cloud's detailed billing export, as JSON or CSV: show what was billed, too"
    add_value(parser, "--billing", "FILE", about)
    add_warehouse(parser, json=False)
    form = parser.add_mutually_exclusive_group()
    add_json(form)
    add_flag(form, "--csv", "print one line of CSV for each run")


def run(arguments: Arguments) -> int:
    since = arguments.week or datetime.now(UTC) - WEEK
    file = arguments.billing
    billed = efficiency.read_billing(read_text(file), file) if file else None
    with open_chosen(arguments) as warehouse:
        if arguments.test:
            require_test(warehouse, arguments.test)
        found = warehouse.costs.between(since, since + WEEK)
    owners = {run.owner for run in found}
    if arguments.owner and arguments.owner not in owners:
        known = ", ".join(sorted(owners)) or "none"
        raise UsageError(f"no run of the owner {arguments.owner!r} stopped in this week; owners: {known}")
    runs = [run for run in found if arguments.test in {None, run.test} and arguments.owner in {None, run.owner}]
    if billed is not None:
        _print_billed(runs, billed, as_csv=arguments.csv, as_json=arguments.json)
    elif arguments.csv:
        csv.writer(sys.stdout, lineterminator="\n").writerows(efficiency.csv_rows(runs))
    else:
        give(arguments, _document(runs, since), _lines(runs, since, by_run=arguments.test is not None))
    return 0


def _print_billed(runs: Sequence[RunCost], billed: Billed, *, as_csv: bool, as_json: bool) -> None:
    """Each run's cost by the price book beside the bill for its pods."""
    rows = [
        (run.run_key, run.test, currency, *(texts_of(each).get(currency) for each in (run.amounts, own)))
        for run in runs
        for own in (billed.runs.get(run.run_key, {}),)
        for currency in sorted({*run.amounts, *own})
    ]
    head = ("run", "test", "currency", "computed", "billed")
    if as_csv:
        csv.writer(sys.stdout, lineterminator="\n").writerows([head, *rows])
    elif as_json:
        print_json({"runs": [dict(zip(head, row, strict=True)) for row in rows], "rows": billed.rows})
    else:
        print(table(head, [[cell or "-" for cell in row] for row in rows], right=(3, 4)))
        known = {run.run_key for run in runs}
        beyond = sum(key not in known for key in billed.runs)
        others = money_of(billed.others) or "nothing"
        print(f"{counted(billed.rows, 'row')} billed; {others} without the label of a run")
        if beyond:
            print(f"{counted(beyond, 'billed run')} not among these")


def _monday(argument: str) -> datetime:
    year, _, week = argument.partition("-W")
    try:
        monday = start_of_day(date.fromisocalendar(int(year), int(week), 1))
    except (ValueError, OverflowError):  # no year has a week 0, and most have no week 53
        monday = END_OF_TIME
    if not BEGINNING_OF_TIME < monday < END_OF_TIME - WEEK:
        raise argparse.ArgumentTypeError(f"{argument!r} should be a week such as 2026-W47, of a year from 1900 to 9998")
    return monday


def _document(runs: Sequence[RunCost], since: datetime) -> dict[str, object]:
    groups = {name: efficiency.bills_by(runs, key) for name, key in _GROUPS.items()}
    return {
        "since": since,
        "until": since + WEEK,
        "total": efficiency.bill_of(runs).document(),
        **{f"by_{name}": {key: bill.document() for key, bill in bills.items()} for name, bills in groups.items()},
    }


def _lines(runs: Sequence[RunCost], since: datetime, *, by_run: bool) -> Iterator[str]:
    total = efficiency.bill_of(runs)
    yield f"{minute(since)} to {minute(since + WEEK)}"
    yield f"{total.cost} for {_hours(total)} chip hours, {counted(total.runs, 'run')}"
    if total.unknown:
        yield f"{counted(total.unknown, 'run')} without a cost, because a price or times are missing"
    for head, rows, right in _tables(runs, total, by_run=by_run):
        if rows:
            yield f"\n{table(head, rows, right=right)}"


def _tables(runs: Sequence[RunCost], total: Bill, *, by_run: bool) -> Iterator[tuple[Cells, Sequence[Cells], Any]]:
    if by_run:
        costs = [money_of(one.amounts) or ("-" if one.is_unknown else "0") for one in runs]
        rows = [(one.run_key[:8], minute(one.at), one.job_status, cost) for one, cost in zip(runs, costs, strict=True)]
        yield ("run", "stopped", "status", "cost"), rows, (3,)
    for name, key in () if by_run else _GROUPS.items():
        bills = efficiency.bills_by(runs, key).items()
        rows = [(group, bill.cost, _hours(bill), str(bill.runs)) for group, bill in bills]
        yield (name, "cost", "chip hours", "runs"), rows, (1, 2, 3)
    reasons = [(efficiency.words_of(name), money_of(amounts)) for name, amounts in total.reasons.items()]
    yield ("spent on", "cost"), reasons, (1,)
    found = efficiency.troubles_of(runs)
    troubles = [(one.test, efficiency.words_of(one.reason), one.cost, str(one.runs)) for one in found]
    yield ("most expensive troubles", "spent on", "cost", "runs"), troubles, (2, 3)


def _hours(bill: Bill) -> str:
    return readable([bill.chip_hours])[0]


_GROUPS: dict[str, Callable[[RunCost], str]] = {"owner": lambda run: run.owner, "test": lambda run: run.test}
