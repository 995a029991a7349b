"""The parser of every command: help of 80 columns, errors that suggest what was probably meant."""

from __future__ import annotations

import argparse
import shutil
import textwrap
from typing import TYPE_CHECKING, NoReturn

from ml_metrics.cli.table import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_HELP_WIDTH = 80


class HelpFormatter(argparse.HelpFormatter):
    """Wraps paragraphs to the terminal, at most 80 columns, and leaves indented lines and examples as they are."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=min(MAX_HELP_WIDTH, shutil.get_terminal_size().columns) - 2)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        paragraphs = text.strip().split("\n\n")
        return "\n\n".join(
            part if "\n " in f"\n{part}" else textwrap.fill(part, width, initial_indent=indent) for part in paragraphs
        )


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors fit on a terminal and name what was probably meant."""

    def __init__(self, *, prog: str, description: str | None = None, epilog: str | None = None) -> None:
        super().__init__(prog=prog, description=description, epilog=epilog, formatter_class=HelpFormatter)

    def parse(self, argv: Sequence[str]) -> argparse.Namespace:
        """Parse a command line. Raises SystemExit, as argparse does, after a message or the help was printed."""
        arguments, unknown = self.parse_known_args(list(argv))
        if unknown:
            self.error(self._unknown(unknown[0]))
        return arguments

    def error(self, message: str) -> NoReturn:
        """Print the usage and the message on standard error, and exit with code 2."""
        super().error("\n".join(map(printable, message.splitlines())))

    def _unknown(self, value: str) -> str:
        if not value.startswith("-"):
            return f"unexpected argument {value!r}"
        from ml_metrics.config.problems import did_you_mean

        option = value.partition("=")[0]
        return f"unknown option {option!r}{did_you_mean(option, self._option_string_actions)}"
