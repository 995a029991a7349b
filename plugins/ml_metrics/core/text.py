"""Texts for people: lines of logs that cannot be forged, names that are safe to show, and what was meant."""

from __future__ import annotations

import logging
from collections.abc import Iterable


def logger_of(module: str) -> logging.Logger:
    """Each of its records is one line without control characters."""
    logger = logging.getLogger(module)
    logger.addFilter(_as_one_line)
    return logger


def warnings_only(library: str) -> None:
    logging.getLogger(library).setLevel(logging.WARNING)


def _as_one_line(record: logging.LogRecord) -> bool:
    """Escape what would end the line of a record, or move the cursor of a terminal. A traceback stays as it is."""
    record.msg, record.args = printable(record.getMessage()), None
    return True


def redacted(text: str, secrets: Iterable[str]) -> str:
    """What a service said as printable text, with every secret replaced by `***`."""
    text = printable(text)
    for secret in sorted(map(printable, filter(None, secrets)), key=len, reverse=True):
        text = text.replace(secret, "***")
    return text


def printable(text: str) -> str:
    """Escapes control characters, line ends, marks of direction and halves of letters: no name may forge a line."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def quoted(text: str) -> str:
    """In quotes as YAML has them, in one line."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(one if one.isprintable() else f"\\U{ord(one):08x}" for one in escaped) + '"'


def shortened(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."


def counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def listed(text: str) -> tuple[str, ...]:
    """The parts between commas, each once."""
    return tuple(dict.fromkeys(part for each in text.split(",") if (part := each.strip())))


def did_you_mean(word: str, options: Iterable[str]) -> str:
    """`; did you mean 'x'?`, or nothing if no option is similar."""
    if len(word) > 100:
        return ""
    from difflib import get_close_matches  # few processes ever need it

    near = get_close_matches(word, list(options), n=1, cutoff=0.6)
    return f"; did you mean {near[0]!r}?" if near else ""
