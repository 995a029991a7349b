"""The one pattern language for tags: an exact tag, a glob for the whole tag, or `re:` and a regular expression."""

import re
from fnmatch import fnmatchcase
from typing import Annotated

from pydantic import AfterValidator

EXPRESSION = "re:"


def check_pattern(pattern: str) -> str:
    """The pattern itself. Raises ValueError if it can match nothing."""
    if not pattern:
        raise ValueError("a tag pattern cannot be empty")
    if pattern.startswith(EXPRESSION):
        try:
            re.compile(pattern.removeprefix(EXPRESSION))
        except re.error as error:
            raise ValueError(f"{pattern!r} is no tag pattern: the expression after `re:` is broken: {error}") from error
    return pattern


Pattern = Annotated[str, AfterValidator(check_pattern)]


def matches(pattern: str, tag: str) -> bool:
    """Whether a tag is meant. An exact tag always matches itself, also where it holds `*` or `[`."""
    if pattern.startswith(EXPRESSION):
        return re.fullmatch(pattern.removeprefix(EXPRESSION), tag) is not None
    return pattern == tag or fnmatchcase(tag, pattern)
