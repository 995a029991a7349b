"""Show what the run folders of each test take, and what a prune would free. Exit code 1: a folder could not be removed
completely.

Some folders stay whatever their age (docs/runs.md). Journals of comparisons and searches are kept as long as a run that
ended like them.

examples:
  ml-metrics storage
  ml-metrics storage --prune --dry-run
  ml-metrics storage --prune --dry-run --rows --keep-rows-days 730
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Any

from ml_metrics import pipeline
from ml_metrics.core.settings import Settings
from ml_metrics.core.text import counted, did_you_mean
from ml_metrics.core.units import BYTES, quantity
from ml_metrics.pipeline import Ages, StoredRuns
from ml_metrics.store import storage
from ml_metrics.store.confined import Usage
from ml_metrics.store.run_folder import listing_limits
from ml_metrics.ui.cli.arguments import Arguments, Parser, UsageError, add_flag, add_value, whole_number
from ml_metrics.ui.cli.chosen_warehouse import NothingRecordedError, add_warehouse, open_chosen
from ml_metrics.ui.cli.output import Progress, give, minute, table, warn


def run_rows(arguments: Arguments, setting: str) -> int:
    """Print whose rows are old enough; with --prune and without --dry-run, remove them."""
    if arguments.test:
        raise UsageError("--rows is for all tests: name none")
    days = setting if arguments.keep_rows_days is None else str(arguments.keep_rows_days)
    with open_chosen(arguments) as warehouse:
        rows = pipeline.old_rows(days, warehouse)
        if rows is None:
            raise UsageError("every row is kept forever: set [ml_metrics] keep_rows_days, or give --keep-rows-days")
        if arguments.prune and not arguments.dry_run:
            removed = sum(rows.remove())
            line = f"the rows of {counted(removed, 'run')} removed: all before {minute(rows.until)}"
            give(arguments, {"until": rows.until, "removed_runs": removed}, [line])
            return 0
        found = rows.count()
    cells = [(one.test, str(one.runs), minute(one.oldest)) for one in found]
    total = counted(sum(one.runs for one in found), "run")
    lines = [table(("test", "runs", "oldest"), cells)] if found else []
    lines += [f"the rows of {total} would be removed: all before {minute(rows.until)}"]
    give(arguments, {"until": rows.until, "removable": [asdict(one) for one in found]}, lines)
    return 0


def add_arguments(parser: Parser) -> None:
    add_value(parser, "test", "TEST", "only these tests", nargs="*")
    add_flag(parser, "--prune", "remove the folders that are kept no longer")
    add_flag(parser, "--dry-run", "with --prune: list them, and remove nothing")
    for option, what, setting in (
        ("--keep-days", "a run that passed", "keep_runs_days"),
        ("--keep-failed-days", "any other run", "keep_failed_runs_days"),
    ):
        about = f"how long the folder of {what} is kept; default: {setting}, else for ever"
        add_value(parser, option, "DAYS", about, whole_number(1, pipeline.MAX_DAYS))
    add_flag(parser, "--rows", "rows of all tests in the warehouse instead of folders")
    about = "default: keep_rows_days"
    add_value(parser, "--keep-rows-days", "DAYS", about, whole_number(1, pipeline.MAX_DAYS))
    add_warehouse(parser)


def run(arguments: Arguments) -> int:
    if arguments.dry_run and not arguments.prune:
        raise UsageError("--dry-run needs --prune; without both, nothing is removed either")
    settings = Settings.load()
    if arguments.rows:
        return run_rows(arguments, settings.keep_rows_days)
    if arguments.keep_rows_days is not None:
        raise UsageError("--keep-rows-days needs --rows")
    stored = pipeline.StoredRuns(settings.storage_root, arguments.deployment or settings.deployment)
    experiments = pipeline.StoredExperiments(stored.root, stored.deployment)
    given = {"passed": arguments.keep_days, "failed": arguments.keep_failed_days}
    ages = replace(pipeline.Ages.of(settings), **{kind: timedelta(days=days) for kind, days in given.items() if days})
    tests = _tests(stored, arguments.test)
    needed = _needed(arguments, stored) if ages.are_set else pipeline.Needed({})
    if arguments.prune and not arguments.dry_run:
        if not ages.are_set:
            raise UsageError(
                "every run folder is kept forever: set [ml_metrics] keep_runs_days, or give --keep-days or "
                "--keep-failed-days"
            )
        remover = pipeline.Remover(stored.root)
        journals_too = experiments.prune(ages, needed, arguments.test or None)
        with _Count() as count:
            left = remover.resume()
            removals = chain(pipeline.prune(tests, stored, ages, needed, remover), journals_too)
            removed = [(run, count(usage)) for run, usage in removals]
        _print_removals(removed, arguments, left)
        return 1 if left.problem or any(usage.problem for _, usage in removed) else 0
    folder, limits = storage.Folder(stored.root), listing_limits(settings)
    with _Count() as count:
        found = {
            test: [
                (choice, count(folder.usage(choice.run.name, limits)))
                for choice in pipeline.choose(stored.of_test(test), ages, needed)
            ]
            for test in tests
        }
    journals = list(experiments.choices(ages, needed, arguments.test or None))
    left = pipeline.Remover(stored.root).left()
    if arguments.prune:
        chosen = [(choice.run, usage) for runs in (*found.values(), journals) for choice, usage in runs
                  if not choice.kept]  # fmt: skip
        _print_removals(chosen, arguments, Usage())
        return 0
    documents = [_document(test, runs) for test, runs in found.items()]
    of_journals = _document("comparisons and searches", journals)
    document = {
        "storage_root": stored.root,
        "keep_runs_days": ages.passed.days if ages.passed else None,
        "keep_failed_runs_days": ages.failed.days if ages.failed else None,
        "tests": documents,
        "experiments": {name: value for name, value in of_journals.items() if name != "test"},
        "left": asdict(left),
    }
    shown = [*documents, of_journals] if journals else documents
    give(arguments, document, _sizes(shown, stored, ages, left))
    if not arguments.json:
        for one in shown:
            for problem in one["problems"]:
                warn(f"{one['test']}: {problem}")
    return 0


def _tests(stored: pipeline.StoredRuns, wanted: list[str]) -> list[str]:
    found = stored.tests()
    for test in wanted:
        if test not in found:
            raise UsageError(f"{stored.root}: there is no folder of a test {test!r}{did_you_mean(test, found)}")
    return wanted or found


def _needed(arguments: Arguments, stored: pipeline.StoredRuns) -> pipeline.Needed:
    now = datetime.now(UTC)
    try:
        with open_chosen(arguments) as warehouse:
            return pipeline.Needed.of(stored.root, stored.deployment, warehouse, now)
    except NothingRecordedError:
        return pipeline.Needed.of(stored.root, stored.deployment, None, now)


def _sizes(documents: list[dict[str, Any]], stored: StoredRuns, ages: Ages, left: Usage) -> Iterator[str]:
    if not documents:
        yield f"{stored.root}: there is no run folder yet."
        return
    sums = ("runs", "files", "bytes", "removable_runs", "removable_bytes")
    oldest = min((one["oldest"] for one in documents if one["oldest"]), default=None)
    total = {"test": "total", "oldest": oldest, **{name: sum(one[name] for one in documents) for name in sums}}
    rows = []
    for one in (*sorted(documents, key=lambda one: -one["bytes"]), total):
        oldest = f"{one['oldest']:%Y-%m-%d}" if one["oldest"] else "-"
        size, removable = (quantity(one[name], BYTES) for name in ("bytes", "removable_bytes"))
        counts = str(one["runs"]), str(one["files"]), size, oldest, str(one["removable_runs"]), removable
        rows.append((one["test"], *counts))
    head = ("test", "runs", "files", "size", "oldest", "to remove", "size")
    yield table(head, rows, right=(1, 2, 3, 5, 6))
    kept = sum((Counter(one["kept"]) for one in documents), Counter[str]())
    reasons = ", ".join(f"{number} {why}" for why, number in sorted(kept.items()))
    if ages.are_set:
        yield f"kept: {reasons or 'none'}"
    else:
        yield "Every run folder is kept for ever: the settings keep_runs_days and keep_failed_runs_days are empty."
    if left.files:
        yield f"left by earlier prunes: {_size(left)}{f'; {left.problem}' if left.problem else ''}"


def _print_removals(removed: list[tuple[pipeline.StoredRun, Usage]], arguments: Arguments, left: Usage) -> None:
    total, runs, lines = Usage(), [], []
    for run, usage in removed:
        total.add(usage)
        runs.append({"test": run.test, "kind": run.kind, "uuid": run.key, "ended_at": run.ended_at, **asdict(usage)})
        ended = minute(run.ended_at) if run.ended_at else "-"
        problem = f"; {usage.problem}" if usage.problem else ""
        name = run.key if run.kind == pipeline.RUN else f"{run.kind} {run.key}"
        passed = "passed" if run.has_passed else "failed"
        lines.append(f"{run.test} {name}: ended {ended}, {passed}, {_size(usage)}{problem}")
    if left.files:
        lines.append(f"left by earlier prunes: {_size(left)}")
    verb = "would be removed" if arguments.dry_run else "removed"
    journals = sum(run.kind != pipeline.RUN for run, _ in removed)
    more = f" and {counted(journals, 'journal')}" if journals else ""
    lines.append(f"{counted(len(removed) - journals, 'run')}{more} {verb}: {_size(total)}")
    document = {"dry_run": arguments.dry_run, "removed": runs, "total": asdict(total), "left": asdict(left)}
    give(arguments, document, lines)


def _document(test: str, runs: list[tuple[pipeline.Choice, Usage]]) -> dict[str, Any]:
    total, removable, kept = Usage(), Usage(), Counter[str]()
    problems = []
    for choice, usage in runs:
        total.add(usage)
        if choice.kept:
            kept["not of this deployment, or unreadable" if choice.run.problem else choice.kept] += 1
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
        "kept": dict(kept),
        "problems": problems,
    }


def _size(usage: Usage) -> str:
    return f"{counted(usage.files, 'file')}, {quantity(usage.bytes, BYTES)}"


class _Count(Progress):
    """Shows how many runs were looked at, and what they take."""

    def __init__(self) -> None:
        super().__init__()
        self._runs, self._total = 0, Usage()

    def __call__(self, usage: Usage) -> Usage:
        self._runs += 1
        self._total.add(usage)
        self.show(f"{counted(self._runs, 'run')}, {_size(self._total)}")
        return usage
