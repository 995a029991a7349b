"""JSON documents of untrusted files: within the limits of a run, and without keys that hide others."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ml_metrics.collect.untrusted_values import number_of, quoted
from ml_metrics.errors import UnreadableInputError
from ml_metrics.json_lines import is_nested

if TYPE_CHECKING:
    from collections.abc import Iterator

INFINITIES = frozenset({"inf", "+inf", "-inf", "infinity", "+infinity", "-infinity", "nan"})
"""Texts that stand for numbers which JSON cannot hold."""


def parse(data: bytes, nesting: int) -> Any:
    """Return the value of a JSON document.

    Raises:
        UnreadableInputError: It is not JSON, is nested too deep, or has a key twice in one object.
    """
    try:
        value = json.loads(data, object_pairs_hook=_object)
    except (ValueError, RecursionError) as error:
        raise UnreadableInputError(f"is not whole JSON: {error}") from error
    if is_nested(value, nesting):
        raise UnreadableInputError(f"has more than {nesting} lists and objects within each other")
    return value


def value_of(content: Any) -> float | None:
    """Return a value as a number, or None. Null is NaN, as are the texts that stand for numbers that are not finite."""
    if isinstance(content, str) and content.strip().lower() in INFINITIES:
        return float(content)
    return None if isinstance(content, bool) else number_of(content)


def objects_in(content: Any) -> Iterator[dict[str, Any]]:
    """Yield the objects of a list. Anything else has none."""
    for one in content if isinstance(content, list) else ():
        if isinstance(one, dict):
            yield one


def numbers_in(content: Any) -> list[float] | None:
    """Return a list of numbers, or None if something else is among them."""
    if not isinstance(content, list) or not content:
        return None
    values = [value_of(one) for one in content]
    return None if any(value is None for value in values) else [value for value in values if value is not None]


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise UnreadableInputError(f"has the key {quoted(twice)} twice in one object; one of both would be lost")
    return found
