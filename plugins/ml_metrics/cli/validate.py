"""Check test files and metric configs, and report every problem at once: file, line, key, reason, and what was probably
meant. Without a path, the folder that Airflow reads is checked. Exit code 1: a file is invalid.

With --with-run, also print what each condition and pattern matches in the folder of a finished run, which condition
judges each metric, and the unit and better direction of each. What every run must produce and this one lacks is a
mistake.

With --with-history, conditions are also tried on the past runs of each test: a margin smaller than the noise, bounds
that no value reaches, a baseline that never fills, and a metric that no run produces are mistakes too.

Tests are also checked by the policy of the administrator: that of the settings, or the FILE of --policy.

A warning names each Python file with tests that Airflow skips, because the words "airflow" and "dag" are not in it.

examples:
  ml-metrics validate
  ml-metrics validate include/metric_configs
  ml-metrics validate include/metric_configs/mnist-cpu.yaml --json
  ml-metrics validate include/metric_configs/mnist-cpu.yaml --with-history
  ml-metrics validate vision.yaml --with-history history.jsonl
  ml-metrics validate include/metric_configs/mnist-cpu.yaml --with-run ./run
  ml-metrics validate --policy policy.yaml
"""

from __future__ import annotations

from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from ml_metrics.cli.arguments import UsageError, text
from ml_metrics.cli.chosen_warehouse import add_warehouse
from ml_metrics.cli.output import counted, print_json, warn
from ml_metrics.config.airflow_namespace import airflow_namespaces
from ml_metrics.config.clusters import namespace_of
from ml_metrics.config.dag_files import files_that_airflow_skips
from ml_metrics.config.load import LoadedTests, config_files, load_file, load_tests
from ml_metrics.config.policy import current_policy, read_policy
from ml_metrics.config.policy_check import refused_namespace
from ml_metrics.config.problems import InvalidFileError, Problem
from ml_metrics.errors import UnreadableInputError
from ml_metrics.settings import Settings

if TYPE_CHECKING:
    import argparse

    from ml_metrics.cli.validate_run import RunOfTest
    from ml_metrics.config.definition import TestDefinition
    from ml_metrics.config.policy import Policy


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `validate`."""
    parser.add_argument("paths", metavar="PATH", nargs="*", type=text, help="a test file, a metric config or a folder")
    parser.add_argument(
        "--with-run",
        type=text,
        metavar="RUN_DIR",
        help="also show what the conditions and patterns of one file match in the folder of a finished run",
    )
    parser.add_argument(
        "--with-history",
        type=text,
        nargs="?",
        const=True,
        metavar="TEST|FILE",
        help="also check the conditions against past runs: those of each test in the warehouse, of another TEST, or of "
        "a FILE as `ml-metrics history` prints it",
    )
    parser.add_argument(
        "--policy",
        type=text,
        metavar="FILE",
        help="the policy of the administrator that the tests are checked by; default: that of the settings",
    )
    add_warehouse(parser)


def run(arguments: argparse.Namespace) -> int:
    """Check the files, and print the problems; exit code 1 if there are any."""
    paths = [Path(path) for path in arguments.paths or [Settings.load().config_root]]
    for path in paths:
        if not path.exists():
            raise UnreadableInputError(f"there is no file or folder {path}")
    policy = read_policy(Path(arguments.policy)) if arguments.policy else None
    found = [_checked(path, policy) for path in paths]
    problems = list(dict.fromkeys(problem for one in found for problem in one.problems))
    if arguments.with_history is not None:
        from ml_metrics.cli.validate_history import history_problems

        problems += [problem for path in paths for problem in history_problems(path, arguments)]
    problems += _beside_airflow([test for one in found for test in one.tests], policy)
    shown, lacking = _with_run(paths, arguments.with_run)
    problems += lacking
    warnings = list(dict.fromkeys(warning for one in found for warning in one.warnings))
    warnings += dict.fromkeys(
        _skipped(file) for path in paths if path.is_dir() for file in files_that_airflow_skips(path)
    )
    tests = sorted({test.name for one in found for test in one.tests})
    if arguments.json:
        documents = list(map(asdict, problems))
        runs = {"runs": [run.document() for run in shown]} if arguments.with_run else {}
        print_json({"valid": not problems, "tests": tests, "problems": documents, "warnings": warnings, **runs})
    else:
        for run in shown:
            print("\n".join(run.text()), end="\n\n")
        files = sum(len(list(config_files(path))) if path.is_dir() else 1 for path in paths)
        _print(problems, warnings, tests, files)
    return 1 if problems else 0


def _beside_airflow(tests: list[TestDefinition], policy: Policy | None) -> list[Problem]:
    """Return the problems of tests that would start beside Airflow since neither they nor the settings say where.

    Their namespace is that of a connection, which no DAG processor reads.
    """
    unnamed = [test for test in tests if namespace_of(test) is None] if airflow_namespaces() else []
    if not unnamed:
        return []
    from ml_metrics.operators.cluster_check import namespace_by_connection

    policy, problems = policy or current_policy(), []
    for _, same in groupby(sorted(unnamed, key=_cluster), key=_cluster):
        first, *others = same
        if refused := refused_namespace(namespace_by_connection(first), policy):
            problems += [Problem(test.source, None, "namespace", refused, test.name) for test in (first, *others)]
    return problems


def _cluster(test: TestDefinition) -> str:
    return test.cluster.address if test.cluster else ""


def _with_run(paths: list[Path], run_dir: str | None) -> tuple[list[RunOfTest], list[Problem]]:
    """Return what the config matches in a run, and what the run lacks."""
    if run_dir is None:
        return [], []
    from ml_metrics.cli.collect import run_folder
    from ml_metrics.cli.validate_run import runs_of

    if len(paths) != 1 or paths[0].is_dir():
        raise UsageError("--with-run needs one PATH: the test file or metric config of the run")
    return runs_of(paths[0], run_folder(run_dir))


def _skipped(file: Path) -> str:
    words = 'the words "airflow" and "dag"'
    return f"{file}: Airflow skips this file, because {words} are not both in it; write them into its docstring"


def _checked(path: Path, policy: Policy | None) -> LoadedTests:
    if path.is_dir():
        return load_tests(path, policy)
    try:
        loaded = load_file(path, policy=policy)
    except InvalidFileError as error:
        return LoadedTests(problems=error.problems)
    return LoadedTests(loaded.tests, (), loaded.warnings)


def _print(problems: list[Problem], warnings: list[str], tests: list[str], files: int) -> None:
    for warning in warnings:
        warn(warning)
    lines = list(dict.fromkeys(map(str, problems)))
    for line in lines:
        print(line)
    if lines:
        invalid = len({problem.file for problem in problems})
        print(f"{counted(len(lines), 'mistake')} in {invalid} of {counted(files, 'file')}.")
    else:
        print(f"{counted(files, 'file')}, {counted(len(tests), 'test')}: no problems.")
