"""The output of commands: JSON documents, warnings, tables, numbers, curves and verdicts, for 80 columns or more."""

from __future__ import annotations

import json
import math
import shutil
import sys
import textwrap
import time
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Self

from ml_metrics.core.text import printable
from ml_metrics.core.units import quantity
from ml_metrics.core.values import finite
from ml_metrics.store.run_folder import without_non_finite
from ml_metrics.ui.cli.arguments import Arguments, UsageError

WIDTH = 80
REDRAW_SECONDS = 0.1
LINE_SECONDS = 60.0
GAP = "  "
BARS = "▁▂▃▄▅▆▇█"
NO_VALUE = "·"


def print_json(document: dict[str, Any] | list[Any]) -> None:
    """NaN and the infinities become null."""
    json.dump(without_non_finite(document), sys.stdout, indent=2, allow_nan=False, default=str)
    sys.stdout.write("\n")


def give(arguments: Arguments, document: dict[str, Any], lines: Iterable[str]) -> None:
    """One JSON document with `--json`, else lines."""
    if arguments.json:
        print_json(document)
    else:
        for line in lines:
            print(line)


class Progress:
    """A line on standard error about how far something is, on a terminal alone. It is gone at the end.

    It is first drawn after `delay` seconds, and at most ten times a second.
    """

    def __init__(self, delay: float = 0.0) -> None:
        self._next = time.monotonic() + delay
        self._drawn = False

    def __enter__(self) -> Self:
        return self

    def show(self, line: str) -> None:
        now = time.monotonic()
        if now >= self._next and sys.stderr.isatty():
            self._next, self._drawn = now + REDRAW_SECONDS, True
            print(f"\r\x1b[K{printable(line)}", end="", file=sys.stderr, flush=True)

    def __exit__(self, *_: object) -> None:
        if self._drawn:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def wrapped(text: str, first: str = "", rest: str = "  ") -> list[str]:
    """The lines of a text, with what stands before the first and before the others. No word is cut."""
    text, width = printable(text), columns()
    return textwrap.wrap(
        text, width, initial_indent=first, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False
    )


def tell(text: str) -> None:
    """A line on standard error about how far something is, on a terminal alone: in a pipe, only problems are there."""
    if sys.stderr.isatty():
        print(printable(text), file=sys.stderr, flush=True)


class Steps:
    """How far a long command is: each line on a terminal, and one a minute where only problems are shown else."""

    def __init__(self) -> None:
        self._next = time.monotonic() + LINE_SECONDS

    def __call__(self, line: str) -> None:
        if sys.stderr.isatty() or time.monotonic() >= self._next:
            self._next = time.monotonic() + LINE_SECONDS
            print(printable(line), file=sys.stderr, flush=True)


def warn(message: str) -> None:
    print(f"warning: {printable(message)}", file=sys.stderr)


def write_file(path: str, content: str) -> None:
    """Raises UsageError if the file cannot be written."""
    try:
        Path(path).write_text(content, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from error
    tell(f"wrote {path}")


def table(
    head: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[int] = (), below: Sequence[str] = ()
) -> str:
    """The first column is cut where a line would be too long; `below` has a text for the lines below each row."""
    cells = [[printable(cell) for cell in row] for row in rows]
    widths = [max(len(line[column]) for line in [list(head), *cells]) for column in range(len(head))]
    spare = columns() - sum(widths[1:]) - len(GAP) * (len(widths) - 1)
    widths[0] = min(widths[0], max(spare, len(head[0])))
    texts = ["", *below, *[""] * (len(cells) - len(below))]
    lines = zip([list(head), *cells], texts, strict=True)
    return "\n".join("\n".join([_line(line, widths, right), *indented(text)]) for line, text in lines)


def columns() -> int:
    """The width of the terminal, and 80 where it is narrower or there is none."""
    return max(WIDTH, shutil.get_terminal_size().columns)


def minute(when: datetime) -> str:
    return f"{when:%Y-%m-%d %H:%M}"


def number(value: float | None, unit: str = "") -> str:
    """A dash if there is no finite value."""
    return quantity(finite(value), unit)


def sparkline(values: Sequence[float | None], width: int) -> str:
    """The newest `width` values, oldest first, with a dot for a missing one."""
    shown = [value if value is not None and math.isfinite(value) else None for value in values[-width:]]
    finite = [value for value in shown if value is not None]
    if not finite:
        return NO_VALUE * len(shown)
    low, high = min(finite), max(finite)
    # halved first: the difference of two finite numbers may be infinite
    places = [
        (value / 2 - low / 2) / (high / 2 - low / 2) if low != high else 0.5 for value in shown if value is not None
    ]
    bars = iter(BARS[min(len(BARS) - 1, int(place * len(BARS)))] for place in places)
    return "".join(NO_VALUE if value is None else next(bars) for value in shown)


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[int]) -> str:
    padded = [
        cut(cell, width).rjust(width) if column in right else cut(cell, width).ljust(width)
        for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return GAP.join(padded).rstrip()


def cut(text: str, width: int) -> str:
    """The middle is left out: names of metrics differ at both ends."""
    if len(text) <= width:
        return text
    tail = (width - 1) // 2
    return f"{text[: width - 1 - tail]}…{text[len(text) - tail :]}"


def indented(text: str) -> list[str]:
    return wrapped(text, " " * 4, " " * 4)
