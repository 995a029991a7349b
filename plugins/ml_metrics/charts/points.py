"""The input of charts: the values of one metric by run, and annotations."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime


class Axis(StrEnum):
    """The scale of the value axis."""

    LINEAR = "linear"
    LOG = "log"
    PERCENT = "percent"
    """Every number in percent of the metric's level."""


@dataclass(frozen=True, slots=True)
class Annotation:
    """An event between runs: a level was accepted, a level changed, or an image was replaced."""

    at: datetime
    text: str
    kind: str
    """`accepted`, `level` or `changed`."""
