"""What was found, in columns: block by block, and at the end as series."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ml_metrics.events.points import Points

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from ml_metrics.events.record import Name
    from ml_metrics.events.sessions import Session


Key = tuple[str, str, int]
_FORGOTTEN = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Part:
    """The points of one tag in one session."""

    session: Session
    name: Name


@dataclass(frozen=True, slots=True)
class Columns:
    """Points of any parts, side by side."""

    order: NDArray[np.int64]
    """The numbers of the records that the points stand in: they rise."""
    part: NDArray[np.int32]
    step: NDArray[np.int64]
    wall_time: NDArray[np.float64]
    value: NDArray[np.float64]
    parts: tuple[int, ...]
    """Every part that has a point here."""


@dataclass(slots=True)
class Findings:
    """What one block holds."""

    columns: list[Columns] = field(default_factory=list)
    texts: list[tuple[str, Name, float, bytes]] = field(default_factory=list)
    """Run, name, wall time, text."""
    foreign: set[tuple[str, bytes]] = field(default_factory=set)
    """Run and tag of tensors that a plugin other than scalars shows."""
    shaped: dict[tuple[str, bytes], int] = field(default_factory=dict)
    """Run and tag of tensors that should be scalars but hold another number of elements."""


class Gathering:
    """Everything that was found so far."""

    def __init__(self) -> None:
        self.parts: list[Part] = []
        self.texts: dict[tuple[str, bytes], tuple[float, bytes]] = {}
        self.foreign: set[tuple[str, bytes]] = set()
        self.shaped: dict[tuple[str, bytes], int] = {}
        self._numbers: dict[tuple[Session, Name], int] = {}
        self._columns: list[Columns] = []
        self._text_tags: set[tuple[str, bytes]] = set()

    def number_of(self, session: Session, name: Name) -> int:
        """The number of a part; the next free one if it is new."""
        key = (session, name)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.parts)
            self.parts.append(Part(session, name))
        return number

    def add(self, found: Findings) -> None:
        """Keep what a block held."""
        pieces = found.columns if _is_in_order(found.columns) else [_in_order(found.columns)]
        self._columns += [replace(piece, order=_FORGOTTEN, parts=()) for piece in pieces]
        self.foreign |= found.foreign
        self.shaped |= found.shaped
        for run, name, wall_time, text in found.texts:
            key = (run, name.tag)
            if not name.bare:
                self._text_tags.add(key)
            known = self.texts.get(key)
            if key in self._text_tags and (known is None or wall_time >= known[0]):
                self.texts[key] = (wall_time, text)

    def points(self, keys: list[Key | None]) -> Iterator[tuple[Key, Points]]:
        """The points of all parts that were given the same key, sorted by key; not those whose part has none.

        Hands everything over: it can be called once.
        """
        names = sorted({key for key in keys if key is not None})
        numbers = {key: number for number, key in enumerate(names)}
        of_part = np.array([len(names) if key is None else numbers[key] for key in keys] or [0], np.int32)
        series = of_part[self._column("part")]
        narrow = series.astype(np.uint16) if len(names) < 1 << 16 else series  # numpy sorts these by radix
        order = np.argsort(narrow, kind="stable")
        together = Points(*(self._column(name)[order] for name in ("step", "wall_time", "value")))
        self._columns = []
        ends = np.cumsum(np.bincount(series, minlength=len(names))).tolist()
        for key, start, end in zip(names, [0, *ends], ends, strict=False):
            if end > start:
                yield key, together.where(slice(start, end))

    def _column(self, name: str) -> NDArray[Any]:
        return np.concatenate([getattr(columns, name) for columns in self._columns] or [np.empty(0, np.int64)])


def _is_in_order(pieces: list[Columns]) -> bool:
    """Whether each part's points stand in the order of the buffer when the pieces are put one after the other."""
    reached: dict[int, int] = {}
    for piece in pieces:
        first, last = int(piece.order[0]), int(piece.order[-1])
        for part in piece.parts:
            if reached.get(part, -1) >= first:
                return False
            reached[part] = last
    return True


def _in_order(pieces: list[Columns]) -> Columns:
    """One piece, in the order of the buffer."""
    order = np.concatenate([piece.order for piece in pieces])
    place = np.full(int(order.max()) + 1, -1, np.int64)
    place[order] = np.arange(order.size)
    by_order = place[place >= 0]
    if by_order.size < order.size:  # some record holds several points
        by_order = np.argsort(order, kind="stable")
    part, step, wall_time, value = (
        np.concatenate([getattr(piece, name) for piece in pieces])[by_order]
        for name in ("part", "step", "wall_time", "value")
    )
    return Columns(order[by_order], part, step, wall_time, value, ())
