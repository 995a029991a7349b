"""Sessions: the records of one process, which a later process may overwrite."""

from __future__ import annotations

from dataclasses import dataclass

from ml_metrics.events.points import Points


@dataclass(slots=True, eq=False)
class Session:
    """The records of one process: an event file, or a part of it if another process starts inside it."""

    run: str
    first_step: int | None = None
    """The step from which the session states that it overwrites earlier ones."""


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
    return Points.joined(kept[::-1])
