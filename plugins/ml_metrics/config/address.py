"""Mail addresses: exactly those that every mail program reads as one address, which is the one that was checked."""

from __future__ import annotations

import re

_PART = r"[^\s@,;:<>()\[\]\"\\\x00-\x1f\x7f-\x9f]+"
_ADDRESS = re.compile(f"{_PART}@{_PART}")
"""Without the marks of names, comments, groups and lists: `x<y>@example.com` would be sent to `y`."""
ENCODED = "=?"
"""Begins a word that mail programs decode."""


def is_address(text: str) -> bool:
    """Return whether a text is one mail address, without a name or a comment."""
    return _ADDRESS.fullmatch(text) is not None and ENCODED not in text
