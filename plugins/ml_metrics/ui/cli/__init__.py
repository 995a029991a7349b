"""The command `ml-metrics`: the functions that the DAGs call, for users and for CI.

Exit codes: 0, the answer is yes; 1, the answer is no, as for an invalid config or a failed verdict; 2, wrong usage or
unreadable input.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Any, cast

from ml_metrics import __version__
from ml_metrics.core.errors import MlMetricsError
from ml_metrics.core.text import printable

USAGE = 2
PAINTED = re.compile(
    r"(?:(?<=  )|^)(?:(?P<good>pass|ok|success)|(?P<bad>fail|failure|timeout|missed|missing|non finite|wrong))(?=  |$)",
    re.IGNORECASE | re.MULTILINE,
)
"""The words of a column that have a colour on a terminal."""


def main(argv: Sequence[str] | None = None) -> int:
    arguments = list(sys.argv[1:] if argv is None else argv)
    if reconfigure := getattr(sys.stdout, "reconfigure", None):
        reconfigure(errors="backslashreplace")  # escape, instead of failing on, what the encoding of the terminal lacks
    shown = _OneLine(sys.stdout)
    try:
        with redirect_stdout(cast("Any", shown)):
            return _run(arguments)
    except BrokenPipeError:  # `ml-metrics ... | head` is no error
        sys.stderr.close()
        return 0
    except KeyboardInterrupt:
        return 130
    finally:
        shown.stream = None


class _OneLine:
    """Standard output without control characters: what a command prints may quote names that others have chosen."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream
        """None after the command: a log handler that was made meanwhile then writes to whatever is standard output."""
        plain = "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb"
        self._paints = not plain and bool(getattr(stream, "isatty", bool)())

    def write(self, text: str) -> int:
        shown = "\n".join(map(printable, text.split("\n")))
        if self._paints:
            shown = PAINTED.sub(lambda word: f"\x1b[{32 if word['good'] else 31}m{word[0]}\x1b[0m", shown)
        (self.stream or sys.stdout).write(shown)
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream or sys.stdout, name)


def _run(argv: list[str]) -> int:
    from ml_metrics.ui.cli.commands import COMMANDS, GROUPS, overview, overview_of

    if not argv or argv[0] in {"-h", "--help"}:
        print(overview())
        return 0 if argv else USAGE
    name, *rest = argv
    if name in GROUPS:
        if not rest or rest[0] in {"-h", "--help"}:
            print(overview_of(name))
            return 0 if rest else USAGE
        name, *rest = rest
    if name == "--version":
        print(f"ml-metrics {__version__}")
        return 0
    if any(one.replace("\0", "").encode(errors="ignore").decode() != one for one in argv):
        return _fail("", "an argument holds a NUL byte or is not UTF-8 text")
    if name not in COMMANDS:
        from ml_metrics.core.text import did_you_mean

        near = did_you_mean(name, [*COMMANDS, *GROUPS]) or ";"
        return _fail("", f"unknown command {name!r}{near} `ml-metrics --help` lists the commands")
    return _run_command(name, rest)


def _run_command(name: str, argv: list[str]) -> int:
    from ml_metrics.ui.cli.commands import load_command, parser_of

    try:
        arguments = parser_of(name).parse(argv)
    except SystemExit as ended:  # argparse has printed the help or its message
        return int(ended.code or 0)
    try:
        return int(load_command(name).run(arguments))
    except MlMetricsError as error:
        return _fail(name, str(error))
    except BrokenPipeError:
        raise
    except OSError as error:
        return _fail(name, f"{error.filename or 'standard output'}: {error.strerror or error}")


def _fail(command: str, message: str) -> int:
    text = "\n".join(map(printable, message.splitlines()))
    print(f"{' '.join(filter(None, ('ml-metrics', command)))}: {text}", file=sys.stderr)
    return USAGE
