"""A page's content as CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
import re
from typing import TYPE_CHECKING, Any

from ml_metrics.run_folder import without_non_finite

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

UNSEEN = r"[\s\"\x00-\x1f\x7f-\x9f\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]{0,20}"
SIGNS = "=+\\-@\uff1d\uff0b\uff0d\uff20\ufe66\ufe62\ufe63\ufe6b"
"""What begins a formula, also in full width and in small forms."""
FORMULA = re.compile(rf"^(?=[\t\r\n])|(?:^|(?<=[;\t\r\n]))(?={UNSEEN}[{SIGNS}])")
"""Where a spreadsheet may find a formula: at the start of a cell, also after spaces and characters that are not shown,
and after what separates cells in other countries."""


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
    return FORMULA.sub("'", value) if isinstance(value, str) else value


def _as_text(value: Any) -> str:
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
