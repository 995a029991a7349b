"""Sessions: the records of one process, which a later process may overwrite."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(slots=True, eq=False)
class Session:
    """The records of one process: an event file, or a part of it if another process starts inside it."""

    run: str
    first_step: int | None = None
    """The step from which the session states that it overwrites earlier ones."""


@dataclass(frozen=True, slots=True, eq=False)
class Points:
    """Steps, wall times and values, in the order of writing."""

    step: NDArray[np.int64]
    wall_time: NDArray[np.float64]
    value: NDArray[np.float64]

    def where(self, chosen: NDArray[np.bool_] | slice) -> Points:
        """Return some of the points."""
        return Points(self.step[chosen], self.wall_time[chosen], self.value[chosen])


def without_superseded(written: dict[Session, Points], sessions: list[Session]) -> Points:
    """Return the points of a tag that no later session of its run overwrote.

    A session overwrites earlier ones from the step that it states, or otherwise from its first point of the tag.
    """
    kept: list[Points] = []
    limit: int | None = None
    for session in reversed(sessions):
        points = written.get(session)
        if points is not None:
            kept.append(points if limit is None else points.where(points.step < limit))
        first_step = session.first_step
        if first_step is None and points is not None:
            first_step = int(points.step[0])
        if first_step is not None:
            limit = first_step if limit is None else min(first_step, limit)
    kept.reverse()
    return Points(*(np.concatenate([getattr(part, name) for part in kept]) for name in ("step", "wall_time", "value")))
