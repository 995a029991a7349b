"""Show a night in ten lines, as the mail of the morning does: what needs a person, what moved together, what
recovered, what stays silent and why.

With an alert budget (docs/alerts.md), also show what it let pass and held back, and a proposal for each metric whose
alarms came and went.

examples:
  ml-metrics night
  ml-metrics night 2026-11-28 --json
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, time, timedelta

from ml_metrics.alerts import Night, night_of
from ml_metrics.config.policy import current_policy
from ml_metrics.core.text import counted, printable
from ml_metrics.ui.cli.arguments import Arguments, Parser, UsageError, add_value
from ml_metrics.ui.cli.chosen_warehouse import add_warehouse, open_chosen
from ml_metrics.ui.cli.output import columns, give, wrapped


def add_arguments(parser: Parser) -> None:
    about = "the day on which it ended, at noon UTC; default: the last 24 hours"
    add_value(parser, "date", "DATE", about, nargs="?")
    add_warehouse(parser)


def run(arguments: Arguments) -> int:
    until = datetime.now(UTC) if arguments.date is None else _noon(arguments.date)
    with open_chosen(arguments) as warehouse:
        night = night_of(warehouse, current_policy().alert_budgets, until - timedelta(days=1), until)
    give(arguments, night.document(), _lines(night))
    return 0


def _noon(date: str) -> datetime:
    with suppress(ValueError):
        day = datetime.fromisoformat(date).date()
        if day.year >= 1970:  # rows of the year before are read, too
            return datetime.combine(day, time(12), UTC)
    raise UsageError(f"{date!r} is not a date since 1970, as 2026-01-31")


def _lines(night: Night) -> Iterator[str]:
    for line in map(printable, night.lines()):
        fits = len(line) <= columns() or not sys.stdout.isatty()
        yield line if fits else f"{line[: columns() - 1]}…"
    if night.budgets[1:] or night.uses:
        yield ""
    for budget in night.budgets[1:]:
        yield from wrapped(f"Alert budget: {budget}.")
    for use in night.uses:
        alarms = f"{counted(use.alarms, 'alarm')} of four weeks came and went"
        yield from wrapped(f"{use.test} {use.metric}: {alarms}: {use.proposal}", "  ", "    ")
