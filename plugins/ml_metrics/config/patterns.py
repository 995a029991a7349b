"""Patterns for tags: an exact tag, a glob for the whole tag, or `re:` and a regular expression."""

import re
from fnmatch import fnmatchcase
from typing import Annotated

from pydantic import AfterValidator

EXPRESSION = "re:"


def check_pattern(pattern: str) -> str:
    """Return the pattern if it is valid. Raises ValueError if it is not."""
    if not pattern:
        raise ValueError("a tag pattern cannot be empty")
    if pattern.startswith(EXPRESSION):
        try:
            re.compile(pattern.removeprefix(EXPRESSION))
        except re.error as error:
            raise ValueError(
                f"{pattern!r} is not a tag pattern: the expression after `re:` is invalid: {error}"
            ) from error
    return pattern


Pattern = Annotated[str, AfterValidator(check_pattern)]


def matches(pattern: str, tag: str) -> bool:
    """Return whether a pattern matches a tag. A tag always matches itself, even if it contains `*` or `[`."""
    if pattern.startswith(EXPRESSION):
        return re.fullmatch(pattern.removeprefix(EXPRESSION), tag) is not None
    return pattern == tag or fnmatchcase(tag, pattern)
