"""Bounds for the content of any test file, so that one file costs the others nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ml_metrics.config.problems import InvalidFileError, Problem

if TYPE_CHECKING:
    from ml_metrics.config.document import Document, Where

MAX_TEXT = 128 << 10
"""Bytes of one text. Linux starts no program with a longer argument or variable."""
MAX_ENTRIES = 2_000
"""Entries of one list or mapping."""
MAX_TOTAL = 250_000
"""Values and lines of text in all tests of one file: what 500 tests with 500 values each have."""
LINE_BITS = 6
"""A text counts as one value for each 64 of its characters: Airflow stores all of them for each test."""
MAX_BITS = 64
SHOWN = 100
"""How many mistakes of a file are described. Each is a few lookups, and nobody reads more."""


def check_contents(document: Document) -> int:
    """Return the size of a document: its values, and the lines of its texts. Raises InvalidFileError."""
    problems: list[Problem] = []
    size = 0
    stack: list[tuple[Where, Any]] = [((), document.content)]
    while stack and len(problems) < SHOWN:
        where, value = stack.pop()
        size += 1
        if isinstance(value, str):
            size += len(value) >> LINE_BITS
        if what := _wrong(value):
            problems.append(document.problem(where, what))
        elif isinstance(value, list):
            stack += [((*where, position), inner) for position, inner in enumerate(value)]
        elif isinstance(value, dict):
            stack += [((*where, key), inner) for key, inner in value.items()]
        if size > MAX_TOTAL:
            problems.append(document.problem((), f"has more than {MAX_TOTAL:,} values or lines of text"))
            break
    if problems:
        raise InvalidFileError(problems)
    return size


def check_total(size: int, tests: int, document: Document) -> None:
    """Raise InvalidFileError if the tests of a sweep are too large together."""
    if size * tests > MAX_TOTAL:
        what = f"makes {tests} tests of {size:,} values or lines of text each, at most {MAX_TOTAL:,} in all"
        raise InvalidFileError([document.problem(("sweep",), what)])


def _wrong(value: Any) -> str:
    """Return what makes a value unusable, without what it contains; empty if nothing does."""
    if isinstance(value, str):
        return _wrong_in(value)
    if isinstance(value, int):
        # what databases and Kubernetes hold
        return "is a number with too many digits" if value.bit_length() > MAX_BITS else ""
    if not isinstance(value, dict | list):
        return ""
    if len(value) > MAX_ENTRIES:
        return f"has {len(value):,} entries, at most {MAX_ENTRIES:,} are allowed"
    wrong_keys = (f"a key {what}" for key in value if isinstance(value, dict) and (what := _wrong_in(key)))
    return next(wrong_keys, "")


def _wrong_in(text: str) -> str:
    """Return what makes a text unusable for a database, a cluster or a page; empty if nothing does."""
    if len(text) > MAX_TEXT:
        return f"has {len(text):,} characters, at most {MAX_TEXT:,} are allowed"
    if text.isascii():
        return "contains the character NUL, which no database stores" if "\0" in text else ""
    try:
        text.encode()
    except UnicodeEncodeError:
        return "is not valid text: it contains a lone surrogate"
    return "contains the character NUL, which no database stores" if "\0" in text else ""
