"""Log output as lines that can be shown: no escape sequences, no progress bars, no control characters."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

ESCAPE_SEQUENCE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"  # colours and movements of the cursor
    r"|(?:\x1b[\]P^_X]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)"  # titles and links, if they end
    r"|\x1b[ -/]*[0-~]?"
)
TAB = "    "
CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
MAX_LINE_LENGTH = 2000
MAX_RAW_LENGTH = 4 * MAX_LINE_LENGTH
"""Longer lines are cut before secrets are searched. What is lost there, the final cut would leave out, too."""


def shown(raw: str) -> str:
    r"""Return one line of output as a terminal would leave it: the last state of a progress bar, without colours.

    Letters that would not be visible as such, like marks of the writing direction, become escapes: `\u202e`.
    """
    if raw.isascii() and raw.isprintable():
        return raw
    line = ESCAPE_SEQUENCE.sub("", raw).rstrip("\r\n")
    line = next((part for part in reversed(line.split("\r")) if part.strip()), "")
    line = CONTROLS.sub("", _without_backspaces(line).replace("\t", TAB))
    return line if line.isprintable() else "".join(map(_visible, line))


def cut(line: str, length: int = MAX_LINE_LENGTH) -> str:
    """Return a line of limited length, with both of its ends."""
    if len(line) <= length:
        return line
    tail = length // 3
    head = length - tail
    return f"{line[:head]} [... {len(line) - length:,} characters ...] {line[-tail:]}"


def last_lines(raw: bytes, number: int, mask: Callable[[str], str] = str, *, torn: int = 0) -> tuple[str, ...]:
    """Return the last lines of output as they can be shown, with secrets masked.

    `torn`: the output begins in the middle of a line, whose first letters may be the rest of a secret of this length.
    """
    lines = decoded(raw).split("\n")
    if torn and lines:
        lines[0] = lines[0][torn:]
    if not lines[-1].strip():
        lines.pop()
    return tuple(cut(mask(cut(shown(line), MAX_RAW_LENGTH)).rstrip()) for line in lines[-number:])


def decoded(raw: bytes) -> str:
    r"""Return output as text. Bytes that are not UTF-8 become escapes: `\xff`."""
    return raw.decode(errors="backslashreplace")


def _without_backspaces(line: str) -> str:
    if "\b" not in line:
        return line
    kept: list[str] = []
    for letter in line:
        if letter != "\b":
            kept.append(letter)
        elif kept:
            kept.pop()
    return "".join(kept)


def _visible(letter: str) -> str:
    if letter.isprintable():
        return letter
    return " " if letter.isspace() else letter.encode("unicode_escape").decode()
