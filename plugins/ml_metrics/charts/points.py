"""The input of charts: the values of one metric by run, and annotations."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

    from ml_metrics.model import Outcome


class Axis(StrEnum):
    """The scale of the value axis."""

    LINEAR = "linear"
    LOG = "log"
    PERCENT = "percent"
    """Every number in percent of the metric's level."""


@dataclass(frozen=True, slots=True)
class Plotted:
    """One run of a metric."""

    run_key: str
    at: datetime
    value: float | None
    """None if the run produced no finite number. A letter marks such a run."""
    lower: float | None = None
    upper: float | None = None
    """The bounds by which the value was judged. None means that the side is open."""
    outcome: Outcome | None = None
    """None if the metric has no condition."""
    counts: bool = True
    """Whether later runs are compared with this one. If not, its mark is hollow."""


@dataclass(frozen=True, slots=True)
class Annotation:
    """An event between runs: a level was accepted, a level changed, or an image was replaced."""

    at: datetime
    text: str
    kind: str
    """`accepted`, `level` or `changed`."""
