"""What a value that a program wrote is as a number, and what a name is that people and tables can bear."""

from __future__ import annotations

import hashlib
import json
import math
from typing import Any

LONGEST_NAME = 1900
"""Bytes of a name: an index of PostgreSQL takes 2,704 in all."""


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
    """A name with control characters, line ends and broken letters escaped, and not too long for mails and tables."""
    if not name.isprintable():
        name = "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in name)
    return shortened(name)


def shortened(name: str) -> str:
    """A name of at most `LONGEST_NAME` bytes: of a longer one its begin, a digest that tells it apart, and its end."""
    data = name.encode(errors="replace")
    if len(data) <= LONGEST_NAME:
        return name
    digest = f"~{hashlib.sha256(data).hexdigest()[:16]}~"
    half = (LONGEST_NAME - len(digest)) // 2
    return data[:half].decode(errors="ignore") + digest + data[-half:].decode(errors="ignore")


def text_of(value: Any) -> str:
    """A dimension as text: 64, 64.0 and "64" are one dimension."""
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if type(value) is int:  # a boolean is an int, too
        return str(value)
    return json.dumps(value, sort_keys=True)
