"""Points of one tag, as columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Points:
    """Steps, wall times and values, in the order of writing."""

    step: NDArray[np.int64]
    wall_time: NDArray[np.float64]
    value: NDArray[np.float64]

    def where(self, chosen: NDArray[np.bool_] | slice) -> Points:
        """Return some of the points."""
        return Points(self.step[chosen], self.wall_time[chosen], self.value[chosen])

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Concatenate points."""
        return cls(
            np.concatenate([part.step for part in parts]),
            np.concatenate([part.wall_time for part in parts]),
            np.concatenate([part.value for part in parts]),
        )
