"""The command `ml-metrics`: the same functions that the DAGs call, for people and for CI.

Exit codes: 0 fine; 1 the answer is no (an invalid config, a failed verdict); 2 wrong usage or unreadable input.
Each command is a module of this package with `ABOUT`, `add_arguments(parser)` and `run(arguments) -> int`; only the
module of the command that was asked for is imported.
"""

from __future__ import annotations

import argparse
import keyword
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

from ml_metrics.errors import MlMetricsError

if TYPE_CHECKING:
    from collections.abc import Sequence

COMMANDS = {
    "collect": "aggregate what a run wrote into metrics",
    "judge": "judge metrics against conditions and history",
    "replay": "judge every run of a history by what came before it",
    "goodput": "tell where the time of a job went",
    "validate": "check test files and metric configs",
    "render": "print the Kubernetes object of a test",
    "history": "show the runs of a test, or the values of a metric",
    "tests": "show every test and how it stands",
    "accept": "accept a metric's new level",
    "alerts": "show which tests are not well, and what people were told",
    "ack": "say that you know of a test that is not well",
    "load": "load run folders into the warehouse",
    "backfill": "judge and load run folders again",
    "schema": "make or extend the warehouse's tables",
    "import": "import an older system's history",
    "pools": "show the Airflow pools in which tests wait",
    "cluster": "run pods as processes on this machine",
    "report": "write the dashboard's pages as files",
    "demo": "tell the story of one test on this machine",
}
"""Every command and what it answers, in the order of `--help`."""


class Command(Protocol):
    """What the module of a command holds."""

    ABOUT: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the command's arguments."""

    def run(self, arguments: argparse.Namespace) -> int:
        """Answer, and return the exit code."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    if not words or words[0] in {"-h", "--help"}:
        print(overview())
        return 0 if words else 2
    name, *rest = words
    if name not in COMMANDS:
        print(
            f"ml-metrics: there is no command {name!r}{_nearest(name)}. `ml-metrics --help` lists them.",
            file=sys.stderr,
        )
        return 2
    command = _command(name)
    arguments = _parser(name, command).parse_args(rest)
    try:
        return command.run(arguments)
    except MlMetricsError as error:
        print(f"ml-metrics {name}: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # `ml-metrics ... | head` is no error
        sys.stderr.close()
        return 0


def understands(words: Sequence[str]) -> bool:
    """Whether a command line is one that `main` would run, without running it."""
    name, *rest = words
    if name in {"-h", "--help"}:
        return True
    try:
        _parser(name, _command(name)).parse_args(rest)
    except SystemExit as ended:
        return ended.code == 0  # --help
    except ImportError:
        return False
    return True


def overview() -> str:
    """The text of `ml-metrics --help`."""
    rows = "\n".join(f"  {name:<10} {about}" for name, about in COMMANDS.items())
    return (
        "usage: ml-metrics COMMAND ...\n\n"
        "Accelerator tests as Airflow DAGs: measured, judged, recorded and reported.\n\n"
        f"commands:\n{rows}\n\n"
        "`ml-metrics COMMAND --help` explains one, with examples."
    )


def _command(name: str) -> Command:
    return cast("Command", import_module(_module_of(name)))


def _parser(name: str, command: Command) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"ml-metrics {name}", description=command.ABOUT, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    command.add_arguments(parser)
    return parser


def _module_of(name: str) -> str:
    """`import` is no name for a module."""
    return f"ml_metrics.cli.{name}_" if keyword.iskeyword(name) else f"ml_metrics.cli.{name}"


def _nearest(name: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, COMMANDS, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""
