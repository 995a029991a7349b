"""The values of both arms of a comparison, on a scale on which a change in percent is a shift.

Values that were measured in turns form blocks, so that what a host does to neighbouring runs cancels out. Values
without such an order are one block.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Values = NDArray[np.float64]
    Block = tuple[Sequence[float], Sequence[float]]
    """The values of base and candidate in one block, each in the order of time."""

NEGLIGIBLE = 1e-9
"""A level that is this small a share of the largest value counts as zero."""
CLEAR_SHARE = 0.75
"""Values of both signs have a level in percent of which a change can be stated if this share of them has one sign."""


@dataclass(frozen=True, slots=True, eq=False)
class Arms:
    """The values of base and candidate as columns, block by block."""

    values: Values
    is_candidate: NDArray[np.bool_]
    ends: tuple[int, ...]
    """Where each block ends."""
    scale: Scale

    @property
    def base(self) -> Values:
        """The values of the base, oldest first."""
        return self.values[~self.is_candidate]

    @property
    def candidate(self) -> Values:
        """The values of the candidate, oldest first."""
        return self.values[self.is_candidate]


@dataclass(frozen=True, slots=True)
class Scale:
    """How values were scaled: by their logarithm if all have one sign, else by the level of the base."""

    sign: int
    """1 or -1: logarithms of values of that sign; 0: values divided by `unit`."""
    unit: float = 1.0
    in_percent: bool = True
    """Whether a shift can be stated in percent: not if the level of the base is 0."""

    def percent(self, shift: float) -> float:
        """Return a shift on this scale in percent of the base."""
        if not self.sign:
            return 100 * shift
        try:
            return 100 * self.sign * math.expm1(self.sign * shift)
        except OverflowError:
            return self.sign * math.inf

    def shift(self, percent: float) -> float:
        """Return a change in percent of the base as a shift on this scale."""
        if not self.sign:
            return percent / 100
        share = 1 + self.sign * percent / 100
        return self.sign * math.log(share) if share > 0 else -self.sign * math.inf


def arms_of(blocks: Sequence[Block]) -> Arms:
    """Return the finite values of the blocks. A block without one of both arms shows no difference and is left out."""
    finite = [tuple([value for value in arm if math.isfinite(value)] for arm in block) for block in blocks]
    whole = [(base, candidate) for base, candidate in finite if base and candidate]
    values = np.asarray([value for base, candidate in whole for value in (*base, *candidate)], dtype=np.float64)
    is_candidate = np.asarray([arm for block in whole for arm in (0, 1) for _ in block[arm]], dtype=bool)
    ends = tuple(np.cumsum([len(base) + len(candidate) for base, candidate in whole]).tolist())
    scale, scaled = _scaled(values, values[~is_candidate])
    return Arms(scaled, is_candidate, ends, scale)


def _scaled(values: Values, base: Values) -> tuple[Scale, Values]:
    for sign in (1, -1):
        if len(values) and (sign * values > 0).all():
            return Scale(sign), sign * np.log(sign * values)
    largest = float(np.max(np.abs(values), initial=0.0)) or 1.0
    values, base = values / largest, base / largest
    level = abs(float(np.median(base))) if len(base) else 0.0
    if not level or level < NEGLIGIBLE or max(np.mean(base > 0), np.mean(base < 0)) < CLEAR_SHARE:
        return Scale(0, largest, in_percent=False), values
    return Scale(0, largest * level), values / level
