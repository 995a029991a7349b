"""The parser of every command, the arguments that several commands share, and the types that check their values.

argparse puts the name of the option before the message of a type: `argument --limit: '0' should be ...`.
"""

from __future__ import annotations

import argparse
import getpass
import math
import shutil
import textwrap
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, NoReturn

from ml_metrics.core.errors import MlMetricsError
from ml_metrics.core.text import did_you_mean, printable
from ml_metrics.core.values import as_utc

CHECK_SECONDS = 30
"""How long one check of `doctor` or `clusters` may take, unless its user says otherwise."""


class UsageError(MlMetricsError):
    """The command line names something that does not exist. The user can correct it."""


class HelpFormatter(argparse.HelpFormatter):
    """Wraps paragraphs to the terminal, at most 80 columns, and leaves indented lines and examples as they are."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=min(80, shutil.get_terminal_size().columns) - 2)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        paragraphs = text.strip().split("\n\n")
        return "\n\n".join(
            part if "\n " in f"\n{part}" else textwrap.fill(part, width, initial_indent=indent) for part in paragraphs
        )


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors fit on a terminal and suggest what the user probably meant."""

    def __init__(self, *, prog: str, description: str | None = None, epilog: str | None = None) -> None:
        super().__init__(prog=prog, description=description, epilog=epilog, formatter_class=HelpFormatter)

    def parse(self, argv: Sequence[str]) -> argparse.Namespace:
        """Raises SystemExit, as argparse does, after a message or the help was printed."""
        arguments, unknown = self.parse_known_args(list(argv))
        if unknown:
            self.error(self._unknown(unknown[0]))
        return arguments

    def error(self, message: str) -> NoReturn:
        super().error("\n".join(map(printable, message.splitlines())))

    def _unknown(self, value: str) -> str:
        if not value.startswith("-"):
            return f"unexpected argument {value!r}"
        option = value.partition("=")[0]
        if option == "--json":
            return "--json: this command has no answer that could be a document"
        near = did_you_mean(option.lstrip("-"), [one.lstrip("-") for one in self._option_string_actions])
        return f"unknown option {option!r}" + near.replace("'", "'--", 1)


Arguments = argparse.Namespace


def text(argument: str) -> str:
    """Any text except an empty one, which a shell passes for a variable that is not set."""
    if not argument.strip():
        raise argparse.ArgumentTypeError("should not be empty")
    return argument


def add_value(
    parser: argparse._ActionsContainer,
    name: str,
    metavar: str,
    about: str,
    of: Callable[[str], Any] = text,
    **more: Any,
) -> None:
    parser.add_argument(name, type=of, metavar=metavar, help=about, **more)


def add_flag(parser: argparse._ActionsContainer, name: str, about: str) -> None:
    parser.add_argument(name, action="store_true", help=about)


def add_json(parser: argparse._ActionsContainer) -> None:
    add_flag(parser, "--json", "print one JSON document")


def add_timeout(parser: argparse.ArgumentParser, what: str) -> None:
    about = f"how long {what} (default: {CHECK_SECONDS})"
    add_value(parser, "--timeout", "SECONDS", about, whole_number(1, 600), default=CHECK_SECONDS)


def add_by(parser: argparse.ArgumentParser) -> None:
    add_value(parser, "--by", "NAME", "default: your login name", default=login_name())


def whole_number(minimum: int, maximum: int) -> Callable[[str], int]:
    def parse(argument: str) -> int:
        try:
            value = int(argument)
        except ValueError:
            value = minimum - 1
        if not minimum <= value <= maximum:
            raise argparse.ArgumentTypeError(f"{argument!r} should be a whole number from {minimum} to {maximum}")
        return value

    return parse


def positive_number(unit: str, maximum: float) -> Callable[[str], float]:
    noun = f"a number of {unit}" if unit else "a number"

    def parse(argument: str) -> float:
        try:
            value = float(argument)
        except ValueError:
            value = math.nan
        if not 0 < value <= maximum:
            raise argparse.ArgumentTypeError(f"{argument!r} should be {noun} above 0, at most {maximum:.6g}")
        return value

    return parse


seconds = positive_number("seconds", 1e9)
"""Up to 32 years: longer than any job, shorter than what a clock of the system can wait."""
days = positive_number("days", 36_500)


def moment(argument: str) -> datetime:
    """ISO 8601, UTC where it names no zone, or seconds since 1970."""
    try:
        try:
            return datetime.fromtimestamp(float(argument), UTC)
        except ValueError:
            return as_utc(datetime.fromisoformat(argument))
    except (ValueError, OverflowError, OSError):
        raise argparse.ArgumentTypeError(f"{argument!r} should be a time such as 2026-01-05T08:00:00Z") from None


def pair(argument: str) -> tuple[str, str]:
    name, equals, value = argument.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{argument!r} should have the form NAME=VALUE")
    return name, value


def login_name() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # the user of a container may have no name
        return "unknown"
