"""Laying spans over the pieces that steps and restarts make, so that each moment is counted once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ml_metrics.goodput.buckets import CUSTOM_PREFIX, ELASTIC, PRODUCTIVE, Bucket

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ml_metrics.goodput.spans import Span

_WAITING = {Bucket.OTHER, Bucket.INFRASTRUCTURE_RECOVERY_FROM_DISRUPTION}
"""Time between lives, of which the steps say nothing."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of time that was spent on one thing."""

    start: float
    end: float
    label: str


def laid_over(base: Iterable[Piece], spans: Iterable[Span]) -> list[Piece]:
    """The same stretch of time, with the spans in the places that they can hold.

    Where spans overlap, the one that began last holds the time, as it is the most particular; elastic events
    hold theirs against all others, as they contain the others.
    """
    order = sorted((span for span in spans if span.end > span.start), key=lambda span: span.start)
    waiting = iter(order)
    coming = next(waiting, None)
    active: list[Span] = []
    pieces: list[Piece] = []
    for piece in base:
        at = piece.start
        while at < piece.end:
            while coming is not None and coming.start <= at:
                active.append(coming)
                coming = next(waiting, None)
            active = [span for span in active if span.end > at]
            until = min([piece.end, *(span.end for span in active)])
            if coming is not None:
                until = min(until, coming.start)
            label = _holder(piece.label, active)
            if pieces and pieces[-1].label == label and pieces[-1].end == at:
                pieces[-1] = Piece(pieces[-1].start, until, label)
            else:
                pieces.append(Piece(at, until, label))
            at = until
    return pieces


def _holder(label: str, active: Sequence[Span]) -> str:
    """Which of the active spans holds a moment of a piece, or the piece itself."""
    able = [span for span in active if _can_hold(span.label, label)]
    if not able:
        return label
    return max(able, key=lambda span: (span.label in ELASTIC, span.start, -span.end)).label


def _can_hold(span: str, label: str) -> bool:
    """Whether time of this label can have been spent on that span.

    Custom events hold up training that counts: lost steps are lost as a whole, and outside of the loop nothing was
    held up. Loading beside running steps holds up nothing.
    """
    if span.startswith(CUSTOM_PREFIX):
        return label == PRODUCTIVE
    if span == Bucket.DATA_LOADING_SYNC:
        return label in _WAITING
    return True
