"""Runs the command of a user that measures a candidate once, for `compare` and `bisect`."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ml_metrics.cli.arguments import UsageError, seconds, text, whole_number
from ml_metrics.values import finite, printable, short_hash

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ml_metrics.compare.journal import Journal

DEFAULT_EFFECT = 2.0
MOST_PERCENT = 1_000.0
MOST_RUNS = 10_000
UNTESTABLE = 125
"""The exit code with the same meaning for `git bisect run`."""
UNKNOWN = frozenset({126, 127})
"""The exit codes of a shell that cannot run, or cannot find, a command."""
VALUE = "value"
"""The metric of a command that prints only a number."""


@dataclass(frozen=True, slots=True)
class Measured:
    """The result of one run of the command."""

    values: dict[str, float] = field(default_factory=dict)
    """By metric; empty if the run broke."""
    testable: bool = True
    """Whether another run may measure something."""
    host: str = ""
    """The nodes that it ran on, as far as they are known."""
    reason: str = ""
    """Why nothing was measured."""


def add_command(parser: argparse._ActionsContainer) -> None:
    """Declare `--run`, `--journal` and `--timeout`."""
    parser.add_argument("--run", type=text, metavar="COMMAND", help="what measures $CANDIDATE once")
    parser.add_argument(
        "--journal",
        type=text,
        metavar="FILE",
        help="file that records each run, to continue from; default: one in this folder, named after the question",
    )
    parser.add_argument("--timeout", type=seconds, metavar="SECONDS", help="a run that takes longer is broken")


def add_max_runs(parser: argparse._ActionsContainer, default: int) -> None:
    """Declare `--max-runs`."""
    parser.add_argument(
        "--max-runs", type=whole_number(1, MOST_RUNS), metavar="N", default=default, help="default: %(default)s"
    )


def add_effect(parser: argparse._ActionsContainer) -> None:
    """Declare `--effect`."""
    parser.add_argument(
        "--effect",
        type=percent,
        metavar="PERCENT",
        default=DEFAULT_EFFECT,
        help="the smallest change that matters; default: %(default)g%%",
    )


def percent(argument: str) -> float:
    """A type for percentages: `2%`, `2 %` and `2`."""
    try:
        value = float(argument.strip().removesuffix("%"))
    except ValueError:
        value = 0.0
    if not 0 < value <= MOST_PERCENT:
        raise argparse.ArgumentTypeError(f"{argument!r} should be a percentage above 0 such as 2%")
    return value


def add_dry_run(parser: argparse._ActionsContainer) -> None:
    """Declare `--dry-run`."""
    parser.add_argument("--dry-run", action="store_true", help="only state how many runs it takes, and start none")


def add_same_node(parser: argparse._ActionsContainer) -> None:
    """Declare `--same-node`."""
    parser.add_argument(
        "--same-node", action="store_true", help="trials that are compared run on the node of the first of them"
    )


def journal_path(command: str, given: str | None, question: Mapping[str, Any]) -> Path:
    """Return the journal of a question. Without one that was given, the same question has the same file."""
    return Path(given or f"{command}-{short_hash(json.dumps(question, sort_keys=True))}.jsonl")


def show_journal(journal: Journal, given: str | None) -> None:
    """Name the journal that nobody named, because a later question of the same words finds its runs there."""
    if not given:
        made = f", with {len(journal.lines)} runs that are not made again" if journal.lines else ""
        print(printable(f"journal: {journal.path}{made}"), file=sys.stderr)


@dataclass(frozen=True, slots=True)
class Output:
    """The output of a user's command."""

    text: str = ""
    exit_code: int | None = None
    """None if it took too long."""
    failed: str = ""
    """Why it failed."""


def output_of(candidate: str, command: str, timeout: float | None, folder: str | None = None) -> Output:
    """Run a command with the candidate in the variable CANDIDATE. What it writes to standard error is shown.

    Raises UsageError if the shell cannot run it.
    """
    with subprocess.Popen(  # noqa: S602  (the command of the user, who runs this process)
        command,
        shell=True,
        stdout=subprocess.PIPE,
        env={**os.environ, "CANDIDATE": candidate},
        cwd=folder,
        start_new_session=True,
        text=True,
        errors="replace",
    ) as process:
        try:
            output, _ = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            return Output(failed=f"it took more than {timeout:g} s")
        finally:
            if process.poll() is None:  # with what it has started: it leads a group
                os.killpg(process.pid, signal.SIGKILL)
    code = process.returncode
    if code in UNKNOWN:
        raise UsageError(f"the shell cannot run {command!r}: exit code {code}")
    return Output(output, code, f"exit code {code}" if code else "")


def measured(candidate: str, command: str, timeout: float | None, folder: str | None = None) -> Measured:
    """Run the command once. The last line of its output is a number, or `{metric: number}`."""
    output = output_of(candidate, command, timeout, folder)
    if output.failed:
        return Measured(testable=output.exit_code != UNTESTABLE, reason=output.failed)
    values = _last_values(output.text)
    return Measured(values, reason="" if values else "the last line is neither a number nor {metric: number}")


def last_line(output: str) -> str:
    """Return the last line that is not empty."""
    return next((line.strip() for line in reversed(output.split("\n")) if line.strip()), "")


def _last_values(output: str) -> dict[str, float]:
    try:
        document = json.loads(last_line(output))
    except (ValueError, RecursionError):
        return {}
    found = document if isinstance(document, dict) else {VALUE: document}
    return {name: number for name, value in found.items() if (number := _number(value)) is not None}


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return finite(float(value))
    except OverflowError:
        return None
