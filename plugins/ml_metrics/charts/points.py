"""What is drawn: one metric's values run by run, and what people should know about some of them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

    from ml_metrics.model import Outcome


class Axis(StrEnum):
    """How the values are laid out."""

    LINEAR = "linear"
    LOG = "log"
    PERCENT = "percent"
    """Every number in percent of the metric's usual level."""


@dataclass(frozen=True, slots=True)
class Plotted:
    """One run of a metric."""

    run_key: str
    at: datetime
    value: float | None
    """None if the run produced no finite number; its place is then marked with a letter."""
    lower: float | None = None
    upper: float | None = None
    """The bounds that the value was judged by; None is an open side."""
    outcome: Outcome | None = None
    """None where no condition covers the metric."""
    counts: bool = True
    """Whether later runs are compared with this one. A point that does not count is drawn hollow."""


@dataclass(frozen=True, slots=True)
class Annotation:
    """Something that happened between runs: a level was accepted, a level changed, an image was replaced."""

    at: datetime
    text: str
    kind: str
    """`accepted`, `level` or `changed`."""
