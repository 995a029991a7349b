"""Problems of conditions that the past runs of their tests show, with file and line."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from ml_metrics.cli.arguments import UsageError
from ml_metrics.cli.output import warn
from ml_metrics.cli.past_runs import past_runs
from ml_metrics.config.inherit import ConfigFolder
from ml_metrics.config.load import load_file, load_tests, root_of
from ml_metrics.config.problems import InvalidFileError
from ml_metrics.config.yaml_edit import CONDITIONS
from ml_metrics.judge.calibration.unfit import unfit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ml_metrics.config.problems import Problem


def history_problems(path: Path, arguments: argparse.Namespace) -> Iterator[Problem]:
    """Yield the problems of the conditions of a file, or of the tests below a folder. Invalid files have none."""
    if path.is_dir():
        tests = load_tests(path).tests
        for test in tests:
            yield from _problems(Path(test.source), test.name, path, arguments, lenient=True)
        return
    try:
        names = [test.name for test in load_file(path).tests] or [""]
    except InvalidFileError:
        return
    for name in names:
        yield from _problems(path, name, root_of(path), arguments, lenient=len(names) > 1)


def _problems(path: Path, test: str, root: Path, arguments: argparse.Namespace, *, lenient: bool) -> Iterator[Problem]:
    """Yield the problems of one test. With `lenient`, a test without past runs is only a warning."""
    given = "" if arguments.with_history is True else arguments.with_history
    is_file = _is_file(given)
    chosen = argparse.Namespace(
        place=str(path),
        history=given if is_file else None,
        test=test if is_file or not given else given,
        runs=None,
        warehouse=arguments.warehouse,
        deployment=arguments.deployment,
        json=arguments.json,
    )
    try:
        past = past_runs(chosen)
    except UsageError as error:
        if not lenient:
            raise
        warn(f"{path}: {error}")
        return
    with ConfigFolder(root) as folder:
        document = folder.complete(path)
    for key, what in unfit(past.config, past.rows, test=past.test, acceptances=past.acceptances):
        yield document.problem((*CONDITIONS, key), what).of_test(past.test)


def _is_file(given: str) -> bool:
    """Whether `--with-history` names a file; any other text is the name of a test."""
    try:
        return bool(given) and Path(given).is_file()
    except OSError:  # too long
        return False
