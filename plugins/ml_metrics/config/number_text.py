"""Numbers that were written as text: between quotes, or as other formats have them."""

from __future__ import annotations

import json
import math
import re
from typing import Any

SEPARATOR = re.compile(r"(?<=[0-9a-fA-F])_(?=[0-9a-fA-F])|(?<=\d)[, ](?=\d{3}(?!\d))")
BASE_60 = re.compile(r"[0-9]+(?::[0-5]?[0-9])+(?:\.[0-9]*)?")
PREFIX = re.compile(r"0[xob]", re.IGNORECASE)
MOST_EXACT = 2.0**53
"""From here on, the number that is written may not be the one that is read."""


def write_instead(value: Any, *, whole: bool = False) -> str:
    """Return `: write 1000` for a text like `1_000`; nothing if it means no number, or no whole one.

    YAML 1.1 reads `1_000`, `0b11` and `1:30` as numbers; YAML 1.2, as this package, reads them as text.
    """
    number = _meant(str(value)) if isinstance(value, str | int | float) and not isinstance(value, bool) else math.nan
    if not abs(number) < MOST_EXACT or (whole and number != int(number)):
        return ""
    written = json.dumps(int(number) if number == int(number) else number)
    return f": write {written}{' without quotes' if written == value else ''}"


def _meant(text: str) -> float:
    plain = SEPARATOR.sub("", text.strip())
    sign, digits = (-1 if plain.startswith("-") else 1), plain.removeprefix("-").removeprefix("+")
    if BASE_60.fullmatch(digits):
        *whole, last = digits.split(":")
        return sign * (float(last) + sum(int(part) * 60.0**place for place, part in enumerate(reversed(whole), 1)))
    try:
        return sign * int(digits, 0) if PREFIX.match(digits) else float(plain)
    except (ValueError, OverflowError):
        return math.nan
