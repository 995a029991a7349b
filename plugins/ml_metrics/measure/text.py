"""Numbers and names from untrusted files."""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any

from ml_metrics.core.units import factor_between
from ml_metrics.core.values import storable_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


LAST_OF_NUMBERS = frozenset("0123456789.fFnNyY")
"""The last characters of numbers, among them those of `inf`, `nan` and `infinity`."""
THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+(\.\d*)?")
"""A comma before other digits may be a decimal one."""
MEASURED = re.compile(r"(?P<value>[^\s%]+?)\s*(?P<unit>%|[^\W\d_][^\d\s,;]{0,15})")
PREFIXES = {"k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9}
"""Of numbers without a unit: `8.21k` requests."""
LONGEST_NUMBER = 60
MAX_QUOTED = 120
"""The characters of a name in a warning."""


def number_of(value: Any) -> float | None:
    """A JSON value as a number, or None if it is not one. Null is NaN, and too large an integer is infinite."""
    if value is None:
        return math.nan
    if isinstance(value, int | float):
        try:
            return float(value)
        except OverflowError:
            return math.inf if value > 0 else -math.inf
    return None


def number_in(text: str) -> float | None:
    """The number that a text consists of, or None. Thousands separators are not accepted."""
    if text[-1:] not in LAST_OF_NUMBERS or "_" in text or text[0].isspace() or not text.isascii():
        return None
    try:
        return float(text)
    except ValueError:
        return None


def number(text: str) -> float | None:
    """A number as programs print it: `7,033`, `1.05E+01`, `16.7%`, `596.2/596.2`, `nan`; None for `N/A` and a date."""
    if len(text) <= LONGEST_NUMBER and "_" not in text:
        try:
            return float(text)
        except ValueError:
            pass
    text, _, total = text[:LONGEST_NUMBER].strip().partition("/")
    if "/" in total:
        return None
    text = text.removesuffix("%")
    if THOUSANDS.fullmatch(text):
        text = text.replace(",", "")
    return number_in(text) if text else None


def measured(text: str) -> tuple[float | None, str]:
    """The number that a text is, such as `1,129 MiB`, and its unit."""
    value = number(text) if text else None
    if value is not None:
        return value, "%" if text.endswith("%") else ""
    found = MEASURED.fullmatch(text.strip()) if len(text) <= LONGEST_NUMBER else None
    value = number(found["value"]) if found and found["value"][-1:].isdigit() else None
    return (None, "") if found is None or value is None else (value, found["unit"])


def in_unit(text: str, unit: str) -> float | None:
    """The number that a text is, in a unit: of `1.2 s`, 1200 in ms. None if its own unit measures something else."""
    value, own = measured(text)
    if own in {"", unit} or (own, unit) == ("%", ""):
        return value
    factor = factor_between(own, unit) if unit else PREFIXES.get(own)
    return None if value is None or factor is None else value * factor


def quoted(name: str) -> str:
    """A name for a warning: in quotation marks, without control characters, and not too long to read."""
    text = repr(storable_name(name[: MAX_QUOTED + 1]))
    return text if len(name) <= MAX_QUOTED else f"{text[:MAX_QUOTED]}...'"


def kind_of(value: Any) -> str:
    """What a value is, for a warning. Its content is not told: nobody knows what else is in it."""
    if isinstance(value, bytes):
        return f"{len(value):,} bytes"
    if isinstance(value, str):
        return f"text of {len(value):,} characters"
    if isinstance(value, list | dict):
        return f"{'a list' if isinstance(value, list) else 'an object'} of {len(value):,}"
    return {bool: "a boolean", type(None): "null", int: "a number", float: "a number"}.get(type(value), "no text")


def text_of(value: Any) -> str:
    """A dimension as text. 64, 64.0 and "64" are the same dimension."""
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if type(value) is int:  # not a boolean, which is also an int
        return str(value)
    return json.dumps(value, sort_keys=True)


SHOWN = 5


def shortened_list(names: Sequence[str]) -> str:
    return ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")


def leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield a value, or all within an object, by the keys that lead there: `object/field`."""
    stack = [(name, value)]
    while stack:
        name, one = stack.pop()
        if isinstance(one, dict):
            stack += [(f"{name}/{key}" if name else str(key), inner) for key, inner in reversed(one.items())]
        else:
            yield name, one
