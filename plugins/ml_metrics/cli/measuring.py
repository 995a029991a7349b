"""Runs the command of a user that measures a candidate once, for `compare` and `bisect`."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
from dataclasses import dataclass, field

from ml_metrics.cli.arguments import UsageError, seconds, text, whole_number
from ml_metrics.values import finite

DEFAULT_EFFECT = 2.0
MOST_PERCENT = 1_000.0
MOST_RUNS = 10_000
UNTESTABLE = 125
"""The exit code that `git bisect run` takes for the same."""
UNKNOWN = frozenset({126, 127})
"""The exit codes of a shell that cannot run, or cannot find, a command."""
VALUE = "value"
"""The metric of a command that prints only a number."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What a run of the command printed."""

    values: dict[str, float] = field(default_factory=dict)
    """By metric; empty if the run broke."""
    testable: bool = True
    """Whether another run may measure something."""


def add_command(parser: argparse._ActionsContainer, *, required: bool) -> None:
    """Declare `--run`, `--journal` and `--timeout`."""
    parser.add_argument("--run", type=text, metavar="COMMAND", required=required, help="what measures $CANDIDATE once")
    parser.add_argument(
        "--journal", type=text, metavar="FILE", required=required, help="where each run is written, to go on from"
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


def measured(candidate: str, command: str, timeout: float | None) -> Measured:
    """Run the command once, with the candidate in the variable CANDIDATE.

    The last line of its output is a number, or `{metric: number}`. What it writes to standard error is shown.
    """
    with subprocess.Popen(  # noqa: S602  (the command of the user, who runs this process)
        command,
        shell=True,
        stdout=subprocess.PIPE,
        env={**os.environ, "CANDIDATE": candidate},
        start_new_session=True,
        text=True,
        errors="replace",
    ) as process:
        try:
            output, _ = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            return Measured()
        finally:
            if process.poll() is None:  # with what it has started: it leads a group
                os.killpg(process.pid, signal.SIGKILL)
    if process.returncode in UNKNOWN:
        raise UsageError(f"--run: the shell cannot run the command: exit code {process.returncode}")
    if process.returncode == UNTESTABLE:
        return Measured(testable=False)
    return Measured(_last_values(output) if process.returncode == 0 else {})


def _last_values(output: str) -> dict[str, float]:
    last = next((line.strip() for line in reversed(output.split("\n")) if line.strip()), "")
    try:
        document = json.loads(last)
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
