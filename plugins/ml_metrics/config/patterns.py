"""Patterns for the names of tags, metrics and files: exact names, globs for the whole name, and regular expressions."""

from __future__ import annotations

import re
from collections.abc import Collection
from fnmatch import translate
from functools import lru_cache
from typing import Annotated, Any

from pydantic import AfterValidator

from ml_metrics.core.values import storable_name

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
    return compiled(expression).fullmatch(_as_unicode(text)) is not None


def found_in(expression: str, text: str) -> bool:
    """As `pattern` of JSON Schema wants it."""
    return compiled(expression).search(_as_unicode(text)) is not None


@lru_cache(maxsize=256)
def compiled(expression: str) -> Any:
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
    """What to do about an expression that Python's `re` would accept."""
    parts = ("(?=", "(?!", "(?<=", "(?<!", "(?>", "(?P=", "(?(", *(f"\\{number}" for number in range(1, 10)))
    if any(part in expression for part in parts):
        return "; expressions are matched in linear time, without lookarounds, backreferences and atomic groups"
    return ""


def _as_unicode(text: str) -> str:
    return text if text.isascii() else text.encode(errors="replace").decode()


EXPRESSION = "re:"
ANY_FOLDER = "**/"
MAX_ANY_FOLDERS = 4
"""How many of these in a pattern may stand for no folder."""
_GLOB_PARTS = re.compile(r"\*|\?|\[[^\]]+\]")


def check_pattern(pattern: str) -> str:
    if not pattern:
        raise ValueError("a pattern cannot be empty")
    if pattern.startswith(EXPRESSION):
        try:
            check_expression(pattern.removeprefix(EXPRESSION))
        except ValueError as error:
            raise ValueError(f"{pattern!r} is not a pattern: the expression after `re:` is invalid: {error}") from error
    return pattern


Pattern = Annotated[str, AfterValidator(check_pattern)]
NamePattern = Annotated[
    Pattern, AfterValidator(lambda pattern: pattern if pattern.startswith(EXPRESSION) else storable_name(pattern))
]
"""A pattern for names of tags and metrics, which are stored in another form if they are odd."""


def is_pattern(text: str) -> bool:
    return text.startswith(EXPRESSION) or _GLOB_PARTS.search(text) is not None


def matches(pattern: str, name: str) -> bool:
    """A name always matches itself, even if it contains `*` or `[`."""
    return pattern == name or (is_pattern(pattern) and _covers(pattern, name))


def matches_any(patterns: Collection[str], name: str) -> bool:
    return name in patterns or best_match(patterns, name) is not None


def matches_file(patterns: Collection[str], name: str) -> bool:
    """`**/` may stand for no folder at all."""
    return matches_any(tuple(each for pattern in patterns for each in _with_no_folder(pattern)), name)


@lru_cache(maxsize=256)
def _with_no_folder(pattern: str) -> tuple[str, ...]:
    first, *rest = pattern.split(ANY_FOLDER, MAX_ANY_FOLDERS)
    if pattern.startswith(EXPRESSION) or not rest:
        return (pattern,)
    found = [first]
    for part in rest:
        found = [each + between + part for each in found for between in (ANY_FOLDER, "")]
    return tuple(filter(None, found))


def best_match(patterns: Collection[str], name: str) -> str | None:
    """Return the most particular pattern that matches a name, or None.

    The name itself comes first. Then come globs: those with more characters before their first wildcard, then those
    with more characters in all. Expressions come last. Among equals the first one given counts.
    """
    if not patterns or name in patterns:
        return name if patterns else None
    ordered = _most_particular_first(tuple(patterns))
    return next((pattern for pattern in ordered if _covers(pattern, name)), None)


@lru_cache(maxsize=256)
def _most_particular_first(patterns: tuple[str, ...]) -> list[str]:
    def generality(pattern: str) -> tuple[bool, int, int]:
        literal = [""] if pattern.startswith(EXPRESSION) else _GLOB_PARTS.split(pattern)
        return pattern.startswith(EXPRESSION), -len(literal[0]), -sum(map(len, literal))

    return sorted(filter(is_pattern, patterns), key=generality)


def _covers(pattern: str, name: str) -> bool:
    if pattern.startswith(EXPRESSION):
        return full_match(pattern.removeprefix(EXPRESSION), name)
    return _glob(pattern).fullmatch(name) is not None


@lru_cache(maxsize=1024)
def _glob(pattern: str) -> re.Pattern[str]:
    """A glob as an expression, in which each `*` is tried once: its time is linear, too."""
    return re.compile(translate(pattern))
