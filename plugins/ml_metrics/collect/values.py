"""What a value that a program wrote is as a number, and what a name is that people and tables can bear."""

from __future__ import annotations

import json
import math
from typing import Any


def number_of(value: Any) -> float | None:
    """A JSON value as a number: null is NaN, a boolean 0 or 1, a giant infinite; None for what is no number."""
    if value is None:
        return math.nan
    if isinstance(value, int | float):
        try:
            return float(value)
        except OverflowError:
            return math.inf if value > 0 else -math.inf
    return None


def printable(name: str) -> str:
    """A name with control characters, line ends and broken letters escaped: it stands in mails and tables."""
    if name.isprintable():
        return name
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in name)


def text_of(value: Any) -> str:
    """A dimension as text: 64, 64.0 and "64" are one dimension."""
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return json.dumps(value, sort_keys=True)
