"""Import the runs that other programs recorded (docs/formats.md), such as asv, MLflow or W&B (offline), or the tables
of an older system by their address. Files are recognised by their content.

Imported runs have no verdict: `ml-metrics judge --all` judges them. Exit code 2: a file cannot be read.

examples:
  ml-metrics import .asv/results --test sorting
  ml-metrics import mlruns --dry-run
  ml-metrics import builds.csv --test nightly --mapping columns.yaml
  ml-metrics import bigquery://my-project/xlml_dataset
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path

from ml_metrics.config.settings_file import read_once
from ml_metrics.core.settings import Settings
from ml_metrics.core.text import counted, did_you_mean
from ml_metrics.measure.histories import BY_NAME, Mapping, Reading, Spool, find, runs_of, test_names
from ml_metrics.ui.cli.arguments import Arguments, Parser, UsageError, add_flag, add_value
from ml_metrics.ui.cli.chosen_warehouse import add_warehouse, open_chosen
from ml_metrics.ui.cli.output import Progress, give, minute, table, warn
from ml_metrics.warehouse import OLDER_TABLES, Imported, RunRecord, import_runs, marked, older_runs, record_of


def add_arguments(parser: Parser) -> None:
    add_value(parser, "source", "SOURCE", "a file, a folder, or the address of older tables")
    add_value(parser, "--test", "NAME", "the test whose runs they become; default: a name in the history")
    add_value(parser, "--series", "SERIES", "only the runs of this series")
    add_value(parser, "--mapping", "FILE", "what the columns of a table mean, as YAML")
    names = f"if the content does not tell: {', '.join(BY_NAME)}"
    add_value(parser, "--from", "KIND", names, str, choices=BY_NAME, dest="kind")
    add_flag(parser, "--skip-unreadable", "if a file cannot be read, import the others")
    add_flag(parser, "--dry-run", "write nothing")
    add_warehouse(parser)


def run(arguments: Arguments) -> int:
    if arguments.source.startswith(("sqlite:", "postgresql", "bigquery:")):
        return _import_tables(arguments)
    with Spool() as spool:
        problems = _read(arguments, spool)
        for problem in problems:
            warn(problem)
        if problems and not arguments.skip_unreadable:
            files = counted(len(problems), "file")
            raise UsageError(
                f"{files} cannot be read (above): nothing was imported; --skip-unreadable imports the rest"
            )
        names = _test_names(spool.series, arguments)
        if arguments.dry_run:
            _show(arguments, spool, names)
        else:
            deployment = arguments.deployment or Settings.load().deployment
            records = (
                record_of(one, names[one.series], kind, deployment) for kind, one in spool if one.series in names
            )
            _write(arguments, records, spool.count(names), spool.left_out)
        return 2 if problems else 0


def _read(arguments: Arguments, spool: Spool) -> list[str]:
    mapping = read_once(Path(arguments.mapping), Mapping, "the mapping") if arguments.mapping else None
    reading = Reading(Settings.load().limits, mapping)
    source = find(arguments.source, reading, arguments.kind)
    problems = list(source.problems)
    with Progress() as progress:
        for count, (name, one) in enumerate(runs_of(source, reading, problems), 1):
            spool.add(name, one)
            progress.show(f"{counted(count, 'run')} read")
    spool.left_out.update(reading.left_out)
    return problems


def _test_names(series: Iterable[str], arguments: Arguments) -> dict[str, str]:
    """By series. Raises UsageError if a series has no name, or several have one."""
    found = sorted(series)
    if arguments.series is not None:
        if arguments.series not in found:
            near = did_you_mean(arguments.series, found) or f"; its series: {', '.join(found)[:500]}"
            raise UsageError(f"--series {arguments.series}: there is no such series{near}")
        found = [arguments.series]
    try:
        return test_names(found, arguments.test)
    except ValueError as error:
        raise UsageError(str(error)) from error


def _show(arguments: Arguments, spool: Spool, names: dict[str, str]) -> None:
    tests = [{"test": names[series], "series": series, **spool.series[series].document()} for series in names]
    rows = [
        (series, names[series], str(one.runs), str(one.metrics), minute(one.first), minute(one.last))
        for series, one in spool.series.items()
        if series in names
    ]
    shown = table(("series", "test", "runs", "metrics", "from", "to"), rows, right=(2, 3))
    give(arguments, {"tests": tests, "left_out": spool.left_out}, [shown, *_left_out(spool.left_out)])


def _import_tables(arguments: Arguments) -> int:
    if arguments.test or arguments.series or arguments.mapping or arguments.kind:
        raise UsageError("--test, --series, --mapping and --from are for files; tables name their tests")
    found = older_runs(arguments.source)
    first = list(islice(found, 1))  # a source that cannot be read must not leave an empty warehouse behind
    if arguments.dry_run:
        runs = len(first) + sum(1 for _ in found)
        give(arguments, {"runs": runs}, [f"{counted(runs, 'run')} would be imported."])
        return 0

    _write(arguments, (marked(record, OLDER_TABLES) for record in chain(first, found)), None, {})
    return 0


def _write(arguments: Arguments, records: Iterator[RunRecord], total: int | None, left_out: dict[str, int]) -> None:
    done = Imported()
    with open_chosen(arguments, create=True) as warehouse, Progress() as progress:
        for done in import_runs(warehouse, records):
            progress.show(f"{done.runs + done.there}{f' of {total}' if total else ''} runs")
    there = f" {counted(done.there, 'run')} had been imported before." if done.there else ""
    line = f"{counted(done.runs, 'run')} with {counted(done.metrics, 'metric')} imported.{there}"
    next_step = ["They have no verdicts yet: `ml-metrics judge --all` judges them."] if done.runs else []
    give(arguments, {**done.document(), "left_out": left_out}, [line, *_left_out(left_out), *next_step])


def _left_out(left_out: dict[str, int]) -> list[str]:
    return [f"Left out: {counted(count, 'run')} that {reason}." for reason, count in sorted(left_out.items())]
