"""A job's time as pieces that touch and never overlap: every second is spent on one thing.

All figures are read off these pieces, so that productive time and badput always add up to the whole, for the job, for
any window of it and for what is left when some of it is excluded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ml_metrics.goodput.buckets import PRODUCTIVE, Bucket
from ml_metrics.goodput.overlay import Piece, laid_over
from ml_metrics.goodput.startup import with_startup

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ml_metrics.goodput.lives import Life, Lives
    from ml_metrics.goodput.spans import Span


@dataclass(frozen=True, slots=True)
class Timeline:
    """The pieces of a job's time, in order."""

    start: float
    """When the job began."""
    end: float
    """When it ended, or until when it is known."""
    pieces: tuple[Piece, ...]

    def seconds(self, low: float = -np.inf, high: float = np.inf) -> dict[str, float]:
        """The time spent on each thing, of the whole job or of a window."""
        spent: dict[str, float] = {}
        for piece in self.pieces:
            duration = min(piece.end, high) - max(piece.start, low)
            if duration > 0:
                spent[piece.label] = spent.get(piece.label, 0.0) + duration
        return spent


def timeline_of(lives: Lives, spans: Sequence[Span], start: float, end: float) -> Timeline:
    """Lay what the log tells over what its steps tell, and name every moment from start to end."""
    base = (piece for piece in _base(lives, start, end) if piece.end > piece.start)
    return Timeline(start, end, tuple(with_startup(laid_over(base, spans), lives)))


def _base(lives: Lives, start: float, end: float) -> Iterator[Piece]:
    """What the steps and restarts tell."""
    known = start
    for index, life in enumerate(lives.lives):
        first, last = float(life.time[0]), float(life.time[-1])
        yield Piece(known, first, Bucket.OTHER)
        yield Piece(first, life.survives_until, PRODUCTIVE)
        yield Piece(life.survives_until, last, Bucket.WASTED_PROGRESS_FROM_DISRUPTION)
        following = float(lives.lives[index + 1].time[0]) if index + 1 < len(lives.lives) else end
        done = _last_step_until(life, following, lives)
        yield Piece(last, done, PRODUCTIVE)
        back = done if life.restart is None else max(done, life.restart)
        yield Piece(done, back, Bucket.INFRASTRUCTURE_RECOVERY_FROM_DISRUPTION)
        known = back
    yield Piece(known, end, Bucket.OTHER)


def _last_step_until(life: Life, following: float, lives: Lives) -> float:
    """When the last step of a life was done, if it was.

    A later life that goes on behind it proves that it was, but nobody saw it end: it gets the time of a usual step.
    """
    last = float(life.time[-1])
    if not life.last_step_is_done:
        return last
    if life.ended is not None:
        return life.ended
    usual = float(np.median(life.step_seconds)) if len(life.step) > 1 else lives.usual_step_seconds
    unseen = (life.redone_from - life.last_step) * usual
    return min(last + unseen, following if life.restart is None else life.restart)
