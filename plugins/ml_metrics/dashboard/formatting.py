"""Numbers, bounds and durations as text, and content as JSON and CSV, written the same way on every page."""

from __future__ import annotations

import csv
import io
import json
import math
from typing import TYPE_CHECKING, Any

from ml_metrics.model import Bounds
from ml_metrics.run_folder import without_non_finite

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""A spreadsheet runs a cell that starts with one of these as a formula."""


def number_text(value: float | None) -> str:
    """Return a number with six digits, or `-` for None."""
    return "-" if value is None else f"{value:.6g}"


def bounds_text(lower: float | None, upper: float | None) -> str:
    """Return bounds as the alerts write them, with `-inf` or `inf` for an open side, or `-` if there are none."""
    if lower is None and upper is None:
        return "-"
    return str(Bounds(-math.inf if lower is None else lower, math.inf if upper is None else upper))


def duration_text(seconds: float | None) -> str:
    """Return a duration in its two largest units, or `-` for None."""
    if seconds is None:
        return "-"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours} h"
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{seconds:.3g} s"


def as_csv(rows: Iterable[Sequence[Any]]) -> str:
    """Return rows as comma-separated values that are safe to open in a spreadsheet."""
    out = io.StringIO()
    csv.writer(out).writerows([_cell(value) for value in row] for row in rows)
    return out.getvalue()


def as_json(content: Any, **options: Any) -> str:
    """Return a JSON document; NaN and infinities become null.

    Replacing them takes longer than writing the document and is rarely needed, so it is tried without first.
    """
    try:
        return json.dumps(content, allow_nan=False, default=_as_text, **options)
    except ValueError:
        return json.dumps(without_non_finite(content), allow_nan=False, default=_as_text, **options)


def as_script_json(content: Any) -> str:
    """Return JSON for a `script` element, which no `<` in a name can end early."""
    text = as_json(content, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _cell(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value


def _as_text(value: Any) -> str:
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
