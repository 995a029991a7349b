"""Numbers and names from untrusted files."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ml_metrics.core.values import storable_name

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence


LAST_OF_NUMBERS = frozenset("0123456789.fFnNyY")
"""The last characters of numbers, among them those of `inf`, `nan` and `infinity`."""
MAX_QUOTED = 120
"""The characters of a name in a warning."""


def number_of(value: Any) -> float | None:
    """Return a JSON value as a number, or None if it is not one. Null is NaN, and too large an integer is infinite."""
    if value is None:
        return math.nan
    if isinstance(value, int | float):
        try:
            return float(value)
        except OverflowError:
            return math.inf if value > 0 else -math.inf
    return None


def number_in(text: str) -> float | None:
    """Return the number that a text consists of, or None. Thousands separators are not accepted."""
    if text[-1:] not in LAST_OF_NUMBERS or "_" in text or text[0].isspace() or not text.isascii():
        return None
    try:
        return float(text)
    except ValueError:
        return None


def quoted(name: str) -> str:
    """Return a name for a warning: in quotation marks, without control characters, and not too long to read."""
    text = repr(storable_name(name[: MAX_QUOTED + 1]))
    return text if len(name) <= MAX_QUOTED else f"{text[:MAX_QUOTED]}...'"


def kind_of(value: Any) -> str:
    """Return what a value is, for a warning. Its content is not told: nobody knows what else is in it."""
    if isinstance(value, bytes):
        return f"{len(value):,} bytes"
    if isinstance(value, str):
        return f"text of {len(value):,} characters"
    if isinstance(value, list | dict):
        return f"{'a list' if isinstance(value, list) else 'an object'} of {len(value):,}"
    return {bool: "a boolean", type(None): "null", int: "a number", float: "a number"}.get(type(value), "no text")


def text_of(value: Any) -> str:
    """Return a dimension as text. 64, 64.0 and "64" are the same dimension."""
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if type(value) is int:  # not a boolean, which is also an int
        return str(value)
    return json.dumps(value, sort_keys=True)


MAX_TEXTS = 1000
SHOWN = 5
LONGEST = 1 << 16
"""The characters of one text, as of a text in an event file."""


@dataclass(slots=True)
class Texts:
    """The texts of one file, by name."""

    first: dict[str, str] = field(default_factory=dict)
    """The first text of each name."""
    _varying: set[str] = field(default_factory=set)
    """The names for which another one was found later."""

    def add(self, name: str, text: str) -> None:
        if (name in self.first or len(self.first) < MAX_TEXTS) and self.first.setdefault(name, text) != text:
            self._varying.add(name)

    def metadata(self, numbers: Container[str] = ()) -> Mapping[str, str]:
        """Return the texts that are the same wherever they occur, but no names that also have numbers."""
        return {name: text for name, text in self.first.items() if name not in self._varying and name not in numbers}

    def warnings(self, file: str, numbers: Container[str] = ()) -> list[str]:
        """Return warnings that name the texts that vary, and those among numbers."""
        among = [quoted(name) for name in self.first if name in numbers]
        varying = [quoted(name) for name in self.first if name in self._varying and name not in numbers]
        return [
            f"{file}: {what} was left out: {shortened_list(names)}"
            for what, names in (("text that differs from line to line", varying), ("text among numbers", among))
            if names
        ]


def shortened_list(names: Sequence[str]) -> str:
    return ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
