"""A page before it has a form: the same content becomes HTML, JSON or CSV."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from ml_metrics.run_folder import without_non_finite

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from jinja2 import Environment

CHUNK = 200
"""How many pieces of a template are sent at once."""
FORMULA = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True, slots=True)
class Page:
    """What is known; nothing of it is escaped yet."""

    template: str
    words: dict[str, Any]
    document: Callable[[], Any]
    """The same as JSON."""
    table: Callable[[], Iterable[Sequence[Any]]]
    """The same as rows, the first of them the head."""

    def html(self, **more: Any) -> Iterator[str]:
        """The page, piece by piece."""
        stream = templates().get_template(self.template).stream(**self.words, **more)
        stream.enable_buffering(CHUNK)
        return stream

    def json(self) -> str:
        """One JSON document."""
        return _dumped(self.document())

    def csv(self) -> str:
        """Comma-separated values, as spreadsheets read them."""
        out = io.StringIO()
        csv.writer(out).writerows([_cell(value) for value in row] for row in self.table())
        return out.getvalue()


class NotFoundError(LookupError):
    """There is no such test or run."""


@cache
def templates() -> Environment:
    """The templates. Everything is escaped, and a name that is not there is an error."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("ml_metrics.dashboard"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["figure"] = figure
    environment.filters["took"] = took
    return environment


def embedded(content: Any) -> str:
    """JSON that may stand in a `script` element: no `<` of a name ends that element early."""
    text = _dumped(content, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def figure(value: float | None) -> str:
    """A number for people."""
    return "-" if value is None else f"{value:.6g}"


def took(seconds: float | None) -> str:
    """A stretch of time for people."""
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


def _dumped(content: Any, **how: Any) -> str:
    """JSON. Looking for what is no number takes longer than writing, and is rarely needed."""
    try:
        return json.dumps(content, allow_nan=False, default=_as_text, **how)
    except ValueError:
        return json.dumps(without_non_finite(content), allow_nan=False, default=_as_text, **how)


def _cell(value: Any) -> Any:
    """A value that a spreadsheet would take for a formula becomes text."""
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value


def _as_text(value: Any) -> str:
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
