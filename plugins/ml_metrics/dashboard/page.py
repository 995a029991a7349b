"""A page before it has a format: the same content becomes HTML, JSON or CSV."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from ml_metrics.dashboard.formatting import (
    bounds_text,
    change_text,
    duration_text,
    interval_text,
    number_text,
    value_text,
)
from ml_metrics.values import short_digests

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from jinja2 import Environment

CHUNK = 200
"""The number of template pieces that are sent together."""


@dataclass(frozen=True, slots=True)
class Page:
    """The content of a page. Nothing in it is escaped yet."""

    template: str
    variables: dict[str, Any]
    """The variables of the template."""
    document: Callable[[], Any]
    """Returns the content as a JSON document."""
    table: Callable[[], Iterable[Sequence[Any]]]
    """Returns the content as rows, the first of them the header."""

    def html(self, **more: Any) -> Iterator[str]:
        """Render the page, piece by piece."""
        stream = templates().get_template(self.template).stream(**self.variables, **more)
        stream.enable_buffering(CHUNK)
        return stream


class NotFoundError(LookupError):
    """There is no such page, test or run."""


@cache
def templates() -> Environment:
    """Return the templates. Everything is escaped, and an undefined variable is an error."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("ml_metrics.dashboard"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(number=number_text, duration=duration_text, value=value_text, bounds=bounds_text)
    environment.filters.update(change=change_text, interval=interval_text, short=short_digests)
    return environment
