"""The one pattern language for tags: an exact tag, a glob for the whole tag, or `re:` and a regular expression."""

import re
from fnmatch import fnmatchcase


def matches(pattern: str, tag: str) -> bool:
    """Whether a tag is meant. An exact tag always matches itself, also where it holds `*` or `[`."""
    if pattern.startswith("re:"):
        return re.fullmatch(pattern[3:], tag) is not None
    return pattern == tag or fnmatchcase(tag, pattern)
