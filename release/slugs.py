"""The anchors of headings, as GitHub makes them, so that a link works in both places."""

from __future__ import annotations

import re


def github(heading: str, separator: str = "-") -> str:
    """Return the anchor of a heading."""
    return re.sub(r"[^\w -]", "", heading).replace(" ", separator).lower()
