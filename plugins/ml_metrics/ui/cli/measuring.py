"""Runs the command of a user that measures a candidate once, for `compare` and `bisect`."""

from __future__ import annotations

import argparse
import fcntl
import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ml_metrics.config.definition import TestDefinition
from ml_metrics.config.loading import load_test
from ml_metrics.config.params import TRIAL, YES
from ml_metrics.core.errors import ConfigError, UnreadableInputError
from ml_metrics.core.model import JobStatus
from ml_metrics.core.settings import Settings
from ml_metrics.core.text import printable
from ml_metrics.core.values import finite, short_hash
from ml_metrics.judge import State
from ml_metrics.judge.compare import curve_of
from ml_metrics.pipeline.experiments import IMAGE, TrialRun, check_version, conf_of, trial_that, values_of
from ml_metrics.ui.cli.arguments import (
    Arguments,
    Parser,
    UsageError,
    add_flag,
    add_json,
    add_value,
    seconds,
    whole_number,
)
from ml_metrics.ui.cli.chosen_warehouse import NothingRecordedError, add_warehouse, open_chosen
from ml_metrics.ui.cli.output import tell
from ml_metrics.warehouse import JobRow, Warehouse

VALUE = "value"
"""The metric of a command that prints only a number."""


def add_trials(parser: argparse._ActionsContainer, most: int) -> None:
    add_value(parser, "--run", "COMMAND", "what measures $CANDIDATE once")
    about = "the file of all runs, to continue from; default: one in this folder, named after the question"
    add_value(parser, "--journal", "FILE", about)
    add_value(parser, "--timeout", "SECONDS", "a run that takes longer is broken", seconds)
    add_value(parser, "--max-runs", "N", "default: %(default)s", whole_number(1, 10_000), default=most)
    add_flag(parser, "--dry-run", "only state how many runs it takes")
    about = "trials that are compared run on one node"
    add_flag(parser, "--same-node", about)


def percent(argument: str) -> float:
    """`2%`, `2 %` and `2`."""
    try:
        value = float(argument.strip().removesuffix("%"))
    except ValueError:
        value = 0.0
    if not 0 < value <= 1_000:
        raise argparse.ArgumentTypeError(f"{argument!r} should be a percentage above 0 such as 2%")
    return value


def add_answer(parser: Parser, what: str) -> None:
    about = "the smallest change that matters; default: %(default)g%%"
    add_value(parser, "--effect", "PERCENT", about, percent, default=2.0)
    add_value(parser, "--junit", "FILE", f"also write {what} as JUnit XML")
    form = parser.add_mutually_exclusive_group()
    add_flag(form, "--markdown", "print a table for a comment")
    add_json(form)
    add_warehouse(parser, json=False)


def journal_path(command: str, given: str | None, question: Mapping[str, Any]) -> Path:
    """Without one that was given, the same question has the same file."""
    return Path(given or f"{command}-{short_hash(json.dumps(question, sort_keys=True))}.jsonl")


def show_journal(journal: Journal, given: str | None) -> None:
    """Name the journal that nobody named, because a later question of the same words finds its runs there."""
    if not given:
        made = f", with {len(journal.lines)} runs that are not made again" if journal.lines else ""
        tell(f"journal: {journal.path}{made}")


def output_of(candidate: str, command: str, timeout: float | None, folder: str | None = None) -> str | TrialRun:
    """What a command prints that sees CANDIDATE, or the run that failed; its standard error is shown.

    Raises UsageError if the shell cannot run it.
    """
    environment = {**os.environ, "CANDIDATE": candidate}
    try:
        # the command of the user, who runs this process
        output, code = _output_in_time(command, timeout, shell=True, env=environment, cwd=folder)  # noqa: S604
    except subprocess.TimeoutExpired:
        return TrialRun(candidate, State.BROKEN, reason=f"it took more than {timeout:g} s")
    if code in {126, 127}:  # of a shell that cannot run, or cannot find, a command
        raise UsageError(f"the shell cannot run {command!r}: exit code {code}")
    state = State.UNTESTABLE if code == 125 else State.BROKEN  # as for `git bisect run`
    return TrialRun(candidate, state, reason=f"exit code {code}") if code else output


def measured(candidate: str, command: str, timeout: float | None, folder: str | None = None) -> TrialRun:
    """The last line of the output is a number, or `{metric: number}`; `[[x, y], ...]` is a curve."""
    output = output_of(candidate, command, timeout, folder)
    if isinstance(output, TrialRun):
        return output
    try:
        document = json.loads(last_line(output))
    except (ValueError, RecursionError):
        document = None
    found = document if isinstance(document, dict) else {VALUE: document}
    values = {name: number for name, value in found.items() if (number := _number(value)) is not None}
    curves = {name: one for name, value in found.items() if (one := curve_of(name, value)) is not None}
    if values or curves:
        return TrialRun(candidate, values=values, curves=curves)
    return TrialRun(candidate, State.BROKEN, reason="the last line is neither a number nor {metric: number}")


def last_line(output: str) -> str:
    return next((line.strip() for line in reversed(output.split("\n")) if line.strip()), "")


def _number(value: object) -> float | None:
    try:
        return finite(float(value)) if isinstance(value, int | float) and not isinstance(value, bool) else None
    except OverflowError:
        return None


def loop_seconds() -> float:
    """About a millisecond: the fastest of some rounds, since others were interrupted."""
    fastest = math.inf
    for _ in range(20):
        started, total = time.perf_counter(), 0
        for number in range(20_000):
            total += number & 7
        fastest = min(fastest, time.perf_counter() - started)
    return fastest


def definition_of(test: str) -> TestDefinition | None:
    """None if the test has no file here, such as one that is written in Python."""
    try:
        return load_test(Settings.load().config_root, test)
    except ConfigError:
        return None


def check_trial(test: str, parameter: str, versions: Sequence[str]) -> None:
    """Raise ConfigError if trials of a test may not have these versions: each of them would break."""
    settings, definition = Settings.load(), definition_of(test)
    if definition is None:
        tell(f"{test} has no test file here: its trials show what they may run")
        return
    for version in versions:
        check_version(definition, parameter, version, settings)


def past_values(arguments: Arguments, metrics: Sequence[str] | None) -> dict[str, list[float]]:
    """Oldest first; of all metrics of the newest run if none is named. There are none if nothing was recorded."""
    try:
        with open_chosen(arguments) as warehouse:
            return values_of(warehouse, arguments.test, metrics or ())
    except NothingRecordedError:
        return {}


def measured_trial(arguments: Arguments, parameter: str, version: str, node: str = "") -> TrialRun:
    """On a node if one is named. A run whose workload failed has no values, and states the reason."""
    before = _recorded(arguments)
    conf = json.dumps(conf_of(parameter, version, node))
    output = _airflow(["airflow", "dags", "test", arguments.test, "--conf", conf], arguments.timeout)
    with open_chosen(arguments) as warehouse:
        for row in _newest(warehouse, arguments.test):
            if row.uuid in before:
                continue
            metadata = warehouse.runs.metadata(row.uuid, row.place)
            own = metadata.get(f"param.{parameter}", row.image if parameter == IMAGE else None)
            if own == version:
                return _measured(version, warehouse, row, metadata)
    print("\n".join(map(printable, output.splitlines()[-5:])), file=sys.stderr)
    return TrialRun(version, State.BROKEN, reason="the run recorded nothing")


def _measured(version: str, warehouse: Warehouse, row: JobRow, metadata: Mapping[str, str]) -> TrialRun:
    if row.trial is None:
        raise UsageError(f"run {row.uuid} is no trial: the test has a parameter named {TRIAL!r} that is not {YES!r}")
    host, has_run = metadata.get("nodes") or metadata.get("node") or "", row.job_status == JobStatus.SUCCESS
    failure = "" if has_run else row.failure_reason or row.job_status
    values = {metric.metric: metric.value for metric in warehouse.metrics.of_run(row.place) if has_run}
    return trial_that(version, host, failure, values, warehouse.curves.sweeps_of(row.place))


def _recorded(arguments: Arguments) -> frozenset[str]:
    try:
        with open_chosen(arguments) as warehouse:
            return frozenset(row.uuid for row in _newest(warehouse, arguments.test))
    except NothingRecordedError:
        return frozenset()


def _newest(warehouse: Warehouse, test: str) -> list[JobRow]:
    """Among which a new one is searched: others may start meanwhile."""
    return warehouse.runs.newest(test, 50, trials=True)


def _airflow(command: list[str], timeout: float | None) -> str:
    """The output, whatever the exit code: a run that fails is recorded, too."""
    try:
        return _output_in_time(command, timeout, stderr=subprocess.STDOUT)[0]
    except FileNotFoundError:
        raise UsageError("the command `airflow` was not found: use the environment of Airflow") from None
    except subprocess.TimeoutExpired:
        return ""


def _output_in_time(command: str | list[str], timeout: float | None, **options: Any) -> tuple[str, int]:
    """The standard output and the exit code. Raises TimeoutExpired after the command was killed."""
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, errors="replace", start_new_session=True, **options
    ) as process:
        try:
            return process.communicate(timeout=timeout)[0], process.returncode
        finally:
            if process.poll() is None:  # with what it has started: it leads a group
                os.killpg(process.pid, signal.SIGKILL)


@dataclass(frozen=True, slots=True)
class Journal:
    """An open journal, which no other process can open meanwhile."""

    file: int
    path: Path
    question: dict[str, Any]
    """What was asked, and what was derived from that when the journal was begun."""
    lines: list[dict[str, Any]]
    """One for each run, oldest first."""

    def add(self, line: Mapping[str, Any]) -> None:
        """Write the line of a run to the disk."""
        self.lines.append(dict(line))
        _write(self.file, line)


@contextmanager
def journal_of(
    question: Mapping[str, Any], path: Path, derived: Callable[[], Mapping[str, Any]] | None = None
) -> Iterator[Journal]:
    """Open the journal of a question, or begin it. Raises UnreadableInputError if the file is that of another one.

    `derived` states what follows from the question when it is first asked, such as candidates from a history that
    grows. It is written once, and stays as it was.
    """
    asked = json.loads(json.dumps(question))
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UnreadableInputError(f"{path}: another process is using this journal") from error
        lines = _whole_lines(file, path)
        if not lines:
            lines = [{**asked, **(json.loads(json.dumps(derived())) if derived else {})}]
            _write(file, lines[0])
        elif {key: lines[0].get(key) for key in (asked if derived else lines[0])} != asked:
            names = ", ".join(key for key in {**asked, **lines[0]} if lines[0].get(key) != asked.get(key))
            other = f"other values of {names}; name another journal"
            raise UnreadableInputError(f"{path}: is the journal of another question: {other}")
        yield Journal(file, path, lines[0], lines[1:])
    finally:
        if not os.fstat(file).st_size:  # the question could not be answered: nothing is left behind
            path.unlink(missing_ok=True)
        os.close(file)


def _whole_lines(file: int, path: Path) -> list[dict[str, Any]]:
    """What was written of a line when its writer died is cut off."""
    with os.fdopen(os.dup(file), "rb") as stream:
        stream.seek(0)
        content = stream.read()
    whole = content[: content.rfind(b"\n") + 1]
    lines = []
    for number, line in enumerate(whole.splitlines(), start=1):
        try:
            lines.append(dict(json.loads(line).items()))
        except (ValueError, AttributeError) as error:
            raise UnreadableInputError(f"{path}:{number}: is no line of a journal: {error}") from error
    if len(whole) < len(content):
        if not lines and content[:1] != b"{":
            raise UnreadableInputError(f"{path}: is no journal")
        os.ftruncate(file, len(whole))
    return lines


def _write(file: int, line: Mapping[str, Any]) -> None:
    os.write(file, json.dumps(line).encode() + b"\n")
    os.fsync(file)
