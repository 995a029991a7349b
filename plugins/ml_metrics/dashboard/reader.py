"""The reader of a page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime

    from ml_metrics.dashboard.links import Links


@dataclass(frozen=True, slots=True)
class Reader:
    """Who requests a page, when, and how its links are written."""

    now: datetime
    links: Links
    readable: Callable[[Iterable[str]], frozenset[str]] = frozenset
    """Returns those of some DAGs that the reader may read; all of them for a report's reader."""
