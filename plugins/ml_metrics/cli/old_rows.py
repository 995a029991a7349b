"""`ml-metrics storage --rows`: the rows that are kept no longer."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from ml_metrics.cli.arguments import UsageError
from ml_metrics.cli.chosen_warehouse import open_chosen
from ml_metrics.cli.output import counted, minute, print_json, table
from ml_metrics.retention import old_rows

if TYPE_CHECKING:
    import argparse


def run_rows(arguments: argparse.Namespace, setting: str) -> int:
    """Print whose rows are old enough; with --prune and without --dry-run, remove them."""
    if arguments.test:
        raise UsageError("--rows is for all tests: name none")
    days = setting if arguments.keep_rows_days is None else str(arguments.keep_rows_days)
    with open_chosen(arguments) as warehouse:
        rows = old_rows(days, warehouse)
        if rows is None:
            raise UsageError("every row is kept forever: set [ml_metrics] keep_rows_days, or give --keep-rows-days")
        if arguments.prune and not arguments.dry_run:
            removed = sum(rows.remove())
            if arguments.json:
                print_json({"until": rows.until, "removed_runs": removed})
            else:
                print(f"the rows of {counted(removed, 'run')} removed: all before {minute(rows.until)}")
            return 0
        found = rows.count()
    if arguments.json:
        print_json({"until": rows.until, "removable": [asdict(one) for one in found]})
        return 0
    if found:
        print(table(("test", "runs", "oldest"), [(one.test, str(one.runs), minute(one.oldest)) for one in found]))
    total = sum(one.runs for one in found)
    print(f"the rows of {counted(total, 'run')} would be removed: all before {minute(rows.until)}")
    return 0
