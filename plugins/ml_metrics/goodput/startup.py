"""Program start-up: what the first step of a life took more than the others, as programs are compiled in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ml_metrics.goodput.buckets import PRODUCTIVE, Bucket
from ml_metrics.goodput.overlay import Piece

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ml_metrics.goodput.lives import Life, Lives

_STEP_TIME = {PRODUCTIVE, Bucket.UNPRODUCTIVE_CHECKPOINT_SAVE_TIME}
"""What belongs to a step when steps are compared. A save is part of it, as in ml-goodput-measurement."""


def with_startup(pieces: Sequence[Piece], lives: Lives) -> Iterator[Piece]:
    """The same pieces, with the start-up of each life cut out of the productive time of its first step."""
    at = 0
    for life in lives.lives:
        begin = float(life.time[0])
        while at < len(pieces) and pieces[at].end <= begin:
            yield pieces[at]
            at += 1
        left = _startup_seconds(pieces, at, life)
        until = float(life.time[1]) if left else begin
        while left > 0 and at < len(pieces) and pieces[at].start < until:
            piece = pieces[at]
            at += 1
            if piece.label != PRODUCTIVE:
                yield piece
                continue
            cut = min(piece.end, max(piece.start, begin) + left, until)
            left -= cut - piece.start
            yield Piece(piece.start, cut, Bucket.PROGRAM_STARTUP)
            if cut < piece.end:
                yield Piece(cut, piece.end, PRODUCTIVE)
                break
    yield from pieces[at:]


def _startup_seconds(pieces: Sequence[Piece], at: int, life: Life) -> float:
    """How much longer the first step took than the mean of those that count after it."""
    counted = min(life.redone_from, life.last_step) - (int(life.step[1]) if len(life.step) > 1 else life.last_step)
    if counted <= 0:
        return 0.0
    begin, second, survives = float(life.time[0]), float(life.time[1]), life.survives_until
    first = _step_seconds(pieces, at, begin, second)
    others = _step_seconds(pieces, at, second, survives)
    return max(0.0, first - others / counted * int(life.step[1] - life.step[0]))


def _step_seconds(pieces: Sequence[Piece], at: int, low: float, high: float) -> float:
    total = 0.0
    while at < len(pieces) and pieces[at].start < high:
        piece = pieces[at]
        if piece.label in _STEP_TIME:
            total += max(0.0, min(piece.end, high) - max(piece.start, low))
        at += 1
    return total
