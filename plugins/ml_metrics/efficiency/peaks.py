"""The peaks of chips: how many operations a chip executes in a second at most, by precision, with their source."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, Self

from pydantic import Field, model_validator

from ml_metrics.config.moment import Day
from ml_metrics.config.settings_file import read_once
from ml_metrics.config.strict import Strict

Text = Annotated[str, Field(min_length=1)]
Precision = Literal["bf16", "fp16", "fp8", "int8", "tf32", "fp32"]
Flops = Annotated[float, Field(gt=0)]


class Source(Strict):
    """Where numbers were read, and when."""

    title: Text
    read: Day


class PeaksOfChip(Strict):
    """A line of the table."""

    chips: tuple[Text, ...] = Field(min_length=1)
    of: Text
    """The device, as the source calls it."""
    source: Text
    flops: dict[Precision, Flops] = Field(min_length=1)


class Peaks(Strict):
    """The table."""

    sources: dict[Text, Source]
    peaks: tuple[PeaksOfChip, ...]

    @model_validator(mode="after")
    def one_number_from_a_source(self) -> Self:
        """Reject a line without a source, and two numbers for one chip and precision."""
        known: set[tuple[str, str]] = set()
        for line in self.peaks:
            if line.source not in self.sources:
                raise ValueError(f"{line.of} has the source {line.source!r}, which `sources` lacks")
            for key in ((chip, precision) for chip in line.chips for precision in line.flops):
                if key in known:
                    raise ValueError(f"{key[0]} has two peaks in {key[1]}")
                known.add(key)
        return self


class Peak(NamedTuple):
    """The operations in a second of one chip, and where the number comes from."""

    flops: float
    source: str


def peak_of(chip: str, precision: str) -> Peak | None:
    """Return the peak of a chip; None if the table has none for it in this precision."""
    return _by_chip().get(chip, {}).get(precision)


def precisions_of(chip: str) -> tuple[str, ...]:
    """Return the precisions in which the table has a peak of a chip."""
    return tuple(sorted(_by_chip().get(chip, {})))


@cache
def _by_chip() -> dict[str, dict[str, Peak]]:
    table = read_once(Path(__file__).with_name("peaks.yaml"), Peaks, "the table of peaks")
    found: dict[str, dict[str, Peak]] = {}
    for line in table.peaks:
        source = table.sources[line.source]
        for precision, flops in line.flops.items():
            text = f"{line.of}, {precision}, dense: {source.title}, read {source.read}"
            for chip in line.chips:
                found.setdefault(chip, {})[precision] = Peak(flops, text)
    return found
