"""The points that a workload wrote, and what its files state about them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Stated:
    """What a file states about the values of a series beside its name."""

    unit: str = ""
    better: str = ""
    """`higher`, `lower`, or empty."""
    repeats: bool = False
    """Whether the points are repeats of one measurement, without an order that matters: by default, their median
    counts."""


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """Every point of one tag in one folder, as columns, in the order of writing."""

    run: str
    """The subfolder of the run folder, with `/`; `.` for the run folder itself."""
    tag: str
    step: NDArray[np.int64]
    wall_time: NDArray[np.float64]
    value: NDArray[np.float64]
    single: bool = field(default=False, kw_only=True)
    """Whether values were written as 32-bit floats."""
    stated: Stated = field(default=Stated(), kw_only=True)

    def __len__(self) -> int:
        return len(self.value)
