"""Regular expressions of test files, which are matched in linear time.

Python's `re` takes time that doubles with each character for some expressions, such as `(a+)+$`. One such expression
would stop the DAG processor, a task or the API server for everybody. RE2 has no such expressions, and therefore no
lookarounds and no backreferences.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

MAX_LENGTH = 1_000
"""Longer expressions are generated ones, which are better written as a list of names."""
MAX_MEMORY = 1 << 20
"""The memory for one compiled expression, in bytes. Many expressions are kept at once."""


def check_expression(expression: str) -> None:
    """Raise ValueError with the reason if a regular expression cannot be matched in linear time."""
    if len(expression) > MAX_LENGTH:
        raise ValueError(f"it has {len(expression):,} characters, at most {MAX_LENGTH:,} are allowed")
    compiled(expression)


def full_match(expression: str, text: str) -> bool:
    """Return whether the whole text matches."""
    return compiled(expression).fullmatch(_as_unicode(text)) is not None


def found_in(expression: str, text: str) -> bool:
    """Return whether any part of the text matches, as `pattern` of JSON Schema wants it."""
    return compiled(expression).search(_as_unicode(text)) is not None


@lru_cache(maxsize=256)
def compiled(expression: str) -> Any:
    """Return a compiled expression. Raises ValueError with the reason if it is invalid."""
    import re2  # where it is needed: most test files have no regular expression

    options = re2.Options()
    options.max_mem = MAX_MEMORY
    options.log_errors = False
    try:
        return re2.compile(expression, options)
    except (re2.error, UnicodeError) as error:
        reason = error.args[0] if error.args else error
        reason = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise ValueError(f"{reason}{_hint(expression)}") from error


def _hint(expression: str) -> str:
    """Return what to do about an expression that Python's `re` would accept."""
    parts = ("(?=", "(?!", "(?<=", "(?<!", "(?>", "(?P=", "(?(", *(f"\\{number}" for number in range(1, 10)))
    if any(part in expression for part in parts):
        return "; expressions are matched in linear time, without lookarounds, backreferences and atomic groups"
    return ""


def _as_unicode(text: str) -> str:
    """Return a text that can be encoded: names of files and tags need not be valid."""
    return text if text.isascii() else text.encode(errors="replace").decode()
