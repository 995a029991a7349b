"""Loggers whose lines cannot be forged: a message may quote a name that another user has chosen."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def logger_of(module: str) -> logging.Logger:
    """Return the logger of a module. Each of its records is one line without control characters."""
    logger = logging.getLogger(module)
    logger.addFilter(_as_one_line)
    return logger


def warnings_only(library: str) -> None:
    """Keep a library from reporting each of its steps."""
    logging.getLogger(library).setLevel(logging.WARNING)


def _as_one_line(record: logging.LogRecord) -> bool:
    """Escape what would end the line of a record, or move the cursor of a terminal. A traceback stays as it is."""
    record.msg, record.args = printable(record.getMessage()), None
    return True


def redacted(text: str, secrets: Iterable[str]) -> str:
    """Return what a service said as printable text, with every secret replaced by `***`."""
    text = printable(text)
    for secret in sorted(map(printable, filter(None, secrets)), key=len, reverse=True):
        text = text.replace(secret, "***")
    return text


def printable(text: str) -> str:
    """Return the text with control characters, line ends, marks of direction and halves of letters escaped.

    A name from elsewhere must neither move the cursor of a terminal nor forge a line.
    """
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)
