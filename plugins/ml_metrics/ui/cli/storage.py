"""Show what the run folders of each test take, and what a prune would free; with --prune, remove the folders that are
kept no longer.

The settings [ml_metrics] keep_runs_days and keep_failed_runs_days state how long folders are kept; without them, for
ever. The newest good run of each test, runs of open incidents, runs in progress and runs whose message waits are kept
whatever their age. Journals of comparisons and searches are kept as long as a run that ended like them. Exit code 1: a
folder could not be removed completely.

Rows in the warehouse stay, unless --rows is given: it is about rows instead of folders, of all tests, and about the
setting keep_rows_days.

examples:
  ml-metrics storage
  ml-metrics storage --keep-days 30 --keep-failed-days 180
  ml-metrics storage --prune --dry-run
  ml-metrics storage --prune --dry-run --rows --keep-rows-days 730
"""

from __future__ import annotations

import sys
import time
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import TYPE_CHECKING, Any, Self

from ml_metrics.core.settings import Settings
from ml_metrics.core.units import BYTES, quantity
from ml_metrics.pipeline import (
    MAX_DAYS,
    RUN,
    Ages,
    Needed,
    Remover,
    StoredExperiments,
    StoredRuns,
    choose,
    old_rows,
    prune,
)
from ml_metrics.store import storage
from ml_metrics.store.confined import Usage
from ml_metrics.store.run_folder import listing_limits
from ml_metrics.ui.cli.arguments import UsageError, text, whole_number
from ml_metrics.ui.cli.chosen_warehouse import NothingRecordedError, add_warehouse, open_chosen
from ml_metrics.ui.cli.output import counted, minute, print_json, table, warn

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from ml_metrics.pipeline import Choice, StoredRun


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


REDRAW_SECONDS = 0.2
EXPERIMENTS = "comparisons and searches"
"""The row of their journals."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `storage`."""
    parser.add_argument("test", type=text, nargs="*", metavar="TEST", help="only these tests")
    parser.add_argument("--prune", action="store_true", help="remove the folders that are kept no longer")
    parser.add_argument("--dry-run", action="store_true", help="with --prune: list them, and remove nothing")
    for option, what in (("--keep-days", "a run that passed"), ("--keep-failed-days", "any other run")):
        about = f"for how long the folder of {what} is kept; default: the setting"
        parser.add_argument(option, type=whole_number(1, MAX_DAYS), metavar="DAYS", help=about)
    parser.add_argument("--rows", action="store_true", help="rows in the warehouse instead of folders")
    about = "for how long rows are kept; default: the setting"
    parser.add_argument("--keep-rows-days", type=whole_number(1, MAX_DAYS), metavar="DAYS", help=about)
    add_warehouse(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the sizes, or remove what is kept no longer."""
    if arguments.dry_run and not arguments.prune:
        raise UsageError("--dry-run needs --prune; without both, nothing is removed either")
    settings = Settings.load()
    if arguments.rows:
        return run_rows(arguments, settings.keep_rows_days)
    if arguments.keep_rows_days is not None:
        raise UsageError("--keep-rows-days needs --rows")
    stored = StoredRuns(settings.storage_root, arguments.deployment or settings.deployment)
    ages, tests = _ages(arguments, settings), _tests(stored, arguments.test)
    needed = _needed(arguments, stored) if ages.are_set else Needed({})
    if arguments.prune and not arguments.dry_run:
        return _prune(arguments, stored, tests, ages, needed)
    limits = listing_limits(settings)
    with _Count() as count:
        found = {
            test: list(_measured(choose(stored.of_test(test), ages, needed), stored, limits, count)) for test in tests
        }
    journals = list(_experiments(stored).choices(ages, needed, arguments.test or None))
    left = Remover(stored.root).left()
    if arguments.prune:
        chosen = [(choice.run, usage) for runs in (*found.values(), journals) for choice, usage in runs
                  if not choice.kept]  # fmt: skip
        _print_removals(chosen, arguments, Usage())
        return 0
    documents = [_document(test, runs) for test, runs in found.items()]
    if arguments.json:
        experiments = {name: value for name, value in _document(EXPERIMENTS, journals).items() if name != "test"}
        print_json({**_head(stored, ages), "tests": documents, "experiments": experiments, "left": _usage(left)})
    else:
        _print_sizes([*documents, *([_document(EXPERIMENTS, journals)] if journals else [])], stored, ages, left)
    return 0


def _experiments(stored: StoredRuns) -> StoredExperiments:
    return StoredExperiments(stored.root, stored.deployment)


def _prune(arguments: argparse.Namespace, stored: StoredRuns, tests: list[str], ages: Ages, needed: Needed) -> int:
    if not ages.are_set:
        raise UsageError(
            "every run folder is kept forever: set [ml_metrics] keep_runs_days, or give --keep-days or "
            "--keep-failed-days"
        )
    remover, removed = Remover(stored.root), []
    with _Count() as count:
        left = remover.resume()
        journals = _experiments(stored).prune(ages, needed, arguments.test or None)
        for run, usage in chain(prune(tests, stored, ages, needed, remover), journals):
            count(usage)
            removed.append((run, usage))
    _print_removals(removed, arguments, left)
    return 1 if left.problem or any(usage.problem for _, usage in removed) else 0


def _ages(arguments: argparse.Namespace, settings: Settings) -> Ages:
    ages = Ages.of(settings)
    if arguments.keep_days is not None:
        ages = replace(ages, passed=timedelta(days=arguments.keep_days))
    if arguments.keep_failed_days is not None:
        ages = replace(ages, failed=timedelta(days=arguments.keep_failed_days))
    return ages


def _tests(stored: StoredRuns, wanted: list[str]) -> list[str]:
    from ml_metrics.core.text import did_you_mean

    found = stored.tests()
    for test in wanted:
        if test not in found:
            raise UsageError(f"{stored.root}: there is no folder of a test {test!r}{did_you_mean(test, found)}")
    return wanted or found


def _needed(arguments: argparse.Namespace, stored: StoredRuns) -> Needed:
    now = datetime.now(UTC)
    try:
        with open_chosen(arguments) as warehouse:
            return Needed.of(stored.root, stored.deployment, warehouse, now)
    except NothingRecordedError:
        return Needed.of(stored.root, stored.deployment, None, now)


def _measured(
    choices: list[Choice], stored: StoredRuns, limits: storage.ListingLimits, count: _Count
) -> Iterator[tuple[Choice, Usage]]:
    for choice in choices:
        usage = storage.Folder(stored.root).usage(choice.run.name, limits)
        count(usage)
        yield choice, usage


def _print_sizes(documents: list[dict[str, Any]], stored: StoredRuns, ages: Ages, left: Usage) -> None:
    if not documents:
        print(f"{stored.root}: there is no run folder yet.")
        return
    head = ("test", "runs", "files", "size", "oldest", "to remove", "size")
    total = _total(documents)
    rows = [_row(one) for one in (*sorted(documents, key=lambda one: -one["bytes"]), total)]
    print(table(head, rows, right=(1, 2, 3, 5, 6)))
    reasons = ", ".join(f"{number} {why}" for why, number in sorted(total["kept"].items()))
    if ages.are_set:
        print(f"kept: {reasons or 'none'}")
    else:
        print("Every run folder is kept for ever: the settings keep_runs_days and keep_failed_runs_days are empty.")
    if left.files:
        print(f"left by earlier prunes: {_size(left)}{f'; {left.problem}' if left.problem else ''}")
    for one in documents:
        for problem in one["problems"]:
            warn(f"{one['test']}: {problem}")


def _print_removals(removed: list[tuple[StoredRun, Usage]], arguments: argparse.Namespace, left: Usage) -> None:
    total = Usage()
    for _, usage in removed:
        total.add(usage)
    if arguments.json:
        runs = [
            {"test": run.test, "kind": run.kind, "uuid": run.key, "ended_at": run.ended_at, **_usage(usage)}
            for run, usage in removed
        ]
        print_json({"dry_run": arguments.dry_run, "removed": runs, "total": _usage(total), "left": _usage(left)})
        return
    for run, usage in removed:
        ended = minute(run.ended_at) if run.ended_at else "-"
        problem = f"; {usage.problem}" if usage.problem else ""
        name = run.key if run.kind == RUN else f"{run.kind} {run.key}"
        print(f"{run.test} {name}: ended {ended}, {'passed' if run.has_passed else 'failed'}, {_size(usage)}{problem}")
    if left.files:
        print(f"left by earlier prunes: {_size(left)}")
    verb = "would be removed" if arguments.dry_run else "removed"
    journals = sum(run.kind != RUN for run, _ in removed)
    more = f" and {counted(journals, 'journal')}" if journals else ""
    print(f"{counted(len(removed) - journals, 'run')}{more} {verb}: {_size(total)}")


def _document(test: str, runs: list[tuple[Choice, Usage]]) -> dict[str, Any]:
    """Return what the folders of a test take."""
    total, removable, kept = Usage(), Usage(), dict[str, int]()
    problems = []
    for choice, usage in runs:
        total.add(usage)
        if choice.kept:
            reason = "not of this deployment, or unreadable" if choice.run.problem else choice.kept
            kept[reason] = kept.get(reason, 0) + 1
        else:
            removable.add(usage)
        problems += [f"{choice.run.kind} {choice.run.key}: {one}" for one in (choice.run.problem, usage.problem) if one]
    ends = [choice.run.ended_at for choice, _ in runs if choice.run.ended_at]
    return {
        "test": test,
        "runs": len(runs),
        "files": total.files,
        "bytes": total.bytes,
        "oldest": min(ends, default=None),
        "removable_runs": sum(not choice.kept for choice, _ in runs),
        "removable_bytes": removable.bytes,
        "kept": kept,
        "problems": problems,
    }


def _total(documents: list[dict[str, Any]]) -> dict[str, Any]:
    kept: dict[str, int] = {}
    for one in documents:
        for reason, number in one["kept"].items():
            kept[reason] = kept.get(reason, 0) + number
    sums = {
        name: sum(one[name] for one in documents)
        for name in ("runs", "files", "bytes", "removable_runs", "removable_bytes")
    }
    return {
        "test": "total",
        **sums,
        "oldest": min((one["oldest"] for one in documents if one["oldest"]), default=None),
        "kept": kept,
    }


def _row(one: dict[str, Any]) -> tuple[str, ...]:
    oldest = f"{one['oldest']:%Y-%m-%d}" if one["oldest"] else "-"
    numbers = (str(one["runs"]), str(one["files"]), quantity(one["bytes"], BYTES), oldest)
    return (one["test"], *numbers, str(one["removable_runs"]), quantity(one["removable_bytes"], BYTES))


def _head(stored: StoredRuns, ages: Ages) -> dict[str, Any]:
    days = {"keep_runs_days": ages.passed, "keep_failed_runs_days": ages.failed}
    return {"storage_root": stored.root, **{name: age.days if age else None for name, age in days.items()}}


def _usage(usage: Usage) -> dict[str, Any]:
    return {"files": usage.files, "bytes": usage.bytes, "problem": usage.problem}


def _size(usage: Usage) -> str:
    return f"{counted(usage.files, 'file')}, {quantity(usage.bytes, BYTES)}"


class _Count:
    """Shows on standard error, if it is a terminal, how many runs were looked at."""

    def __init__(self) -> None:
        self.runs, self.total, self._next = 0, Usage(), time.monotonic() + REDRAW_SECONDS

    def __enter__(self) -> Self:
        return self

    def __call__(self, usage: Usage) -> None:
        """Count a run."""
        self.runs += 1
        self.total.add(usage)
        if sys.stderr.isatty() and time.monotonic() >= self._next:
            self._next = time.monotonic() + REDRAW_SECONDS
            sys.stderr.write(f"\r\x1b[K{counted(self.runs, 'run')}, {_size(self.total)}")
            sys.stderr.flush()

    def __exit__(self, *_: object) -> None:
        if sys.stderr.isatty():
            sys.stderr.write("\r\x1b[K")
