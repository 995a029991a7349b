"""The scale of a chart's value axis."""

from enum import StrEnum


class Axis(StrEnum):
    """The scale of the value axis."""

    LINEAR = "linear"
    LOG = "log"
    PERCENT = "percent"
    """Every number in percent of the metric's level."""
