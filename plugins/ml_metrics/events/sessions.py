"""Sessions: what one process wrote from its start to its end, and what a later one wrote again."""

from __future__ import annotations

from dataclasses import dataclass

from ml_metrics.events.points import Points


@dataclass(slots=True, eq=False)
class Session:
    """One process's records: an event file, or a part of one if the file says that a process began inside it."""

    run: str
    begins: int | None = None
    """The step from which the session says that everything is written anew."""


def without_superseded(written: dict[Session, Points], sessions: list[Session]) -> Points:
    """The points of a tag that no later session of its run wrote again.

    A session begins where it says so, else at the step of its first point of the tag. What an older session wrote
    from there on is superseded.
    """
    kept: list[Points] = []
    limit: int | None = None
    for session in reversed(sessions):
        points = written.get(session)
        if points is not None:
            kept.append(points if limit is None else points.where(points.step < limit))
        begins = session.begins
        if begins is None and points is not None:
            begins = int(points.step[0])
        if begins is not None:
            limit = begins if limit is None else min(begins, limit)
    return Points.joined(kept[::-1])
