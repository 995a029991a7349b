"""The peaks of chips: how many floating-point operations a chip executes in a second at most, with their source."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import Field

from ml_metrics.config.moment import Day
from ml_metrics.config.settings_file import read_once
from ml_metrics.config.strict import Strict

Text = Annotated[str, Field(min_length=1)]


class PeakOfChip(Strict):
    """A line of the table."""

    chip: Text
    precision: Text
    flops: Annotated[float, Field(gt=0)]
    of: Text
    """The device, as the source calls it."""


class Peaks(Strict):
    """The table."""

    source: Text
    read: Day
    peaks: tuple[PeakOfChip, ...]


class Peak(NamedTuple):
    """The operations in a second of one chip, and where the number comes from."""

    flops: float
    source: str


def peak_of(chip: str, precision: str) -> Peak | None:
    """Return the peak of a chip; None if the table has none for it in this precision."""
    table = _table()
    for one in table.peaks:
        if (one.chip, one.precision) == (chip, precision):
            return Peak(one.flops, f"{one.of}, {one.precision}, dense: {table.source}, read {table.read}")
    return None


@cache
def _table() -> Peaks:
    return read_once(Path(__file__).with_name("peaks.yaml"), Peaks, "the table of peaks")
