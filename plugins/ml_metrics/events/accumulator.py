"""The contents of all blocks, accumulated in columns and returned as one series per tag."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ml_metrics.events.sessions import Points
from ml_metrics.limits import Allowance

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from ml_metrics.events.layout import TagName
    from ml_metrics.events.sessions import Session


Key = tuple[str, str, int]
LEFT_OUT = -1
"""The number of a series part for which there is no room."""
MAX_PARTS = 1_000_000
"""Parts are made by tags and by starts of processes, so there may be many of few tags."""
_EMPTY = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Columns:
    """Points of several series parts, side by side."""

    order: NDArray[np.int64]
    """The number of each point's record in its block, in ascending order."""
    part: NDArray[np.int32]
    step: NDArray[np.int64]
    wall_time: NDArray[np.float64]
    value: NDArray[np.float64]
    parts: tuple[int, ...]
    """The numbers of all series parts that have a point here."""


@dataclass(slots=True)
class BlockContents:
    """Everything read from one block."""

    columns: list[Columns] = field(default_factory=list)
    texts: list[tuple[str, TagName, float, bytes]] = field(default_factory=list)
    """Run, name, wall time, text."""
    other_plugin_tags: set[tuple[str, bytes]] = field(default_factory=set)
    """Run and tag of tensors that belong to a plugin other than scalars."""
    multi_element_tags: dict[tuple[str, bytes], int] = field(default_factory=dict)
    """Run and tag of tensors of the scalars plugin without exactly one element, with the number of elements."""


class Accumulator:
    """Everything read so far, as far as the run's allowance goes."""

    def __init__(self, allowance: Allowance | None = None) -> None:
        self.allowance = allowance or Allowance()
        self.parts: dict[tuple[Session, TagName], int] = {}
        """The series parts in the order of their numbers: the points of one tag in one session each."""
        self.single: set[int] = set()
        """The numbers of series parts with 32-bit floats."""
        self._numbers: dict[tuple[Session, TagName], int] = {}
        self.texts: dict[tuple[str, bytes], tuple[float, bytes]] = {}
        self.other_plugin_tags: set[tuple[str, bytes]] = set()
        self.multi_element_tags: dict[tuple[str, bytes], int] = {}
        self._columns: list[Columns] = []
        self._text_tags: set[tuple[str, bytes]] = set()
        self._tags: dict[tuple[str, bytes], int] = {}
        self._tag_of_part: list[int] = []

    def part_number(self, session: Session, name: TagName) -> int:
        """Return the number of a series part. A new part gets the next free number, or `LEFT_OUT` without room."""
        number = self._numbers.get((session, name))
        if number is None and not self._has_room(session.run, name.tag):
            return LEFT_OUT
        if number is None:  # floats of 32 and of 64 bits of one tag are one part, in the order of writing
            number = self.parts.setdefault((session, name._replace(single=False)), len(self.parts))
            self._numbers[session, name] = number
            if number == len(self._tag_of_part):
                self._tag_of_part.append(self._tags.setdefault((session.run, name.tag), len(self._tags)))
            if name.single:
                self.single.add(number)
        return number

    def add_other_plugin_tag(self, run: str, tag: bytes) -> None:
        """Remember that tensors of a tag are no scalars."""
        key = (run, tag)
        if key not in self.other_plugin_tags and self.allowance.has_text(len(tag)):
            self.other_plugin_tags.add(key)

    def add(self, found: BlockContents) -> None:
        """Add the contents of a block."""
        columns = [one for chunk in found.columns if (one := self._allowed(chunk)) is not None]
        chunks = columns if self._is_ordered(columns) else [_ordered(columns)]
        self._columns += [replace(chunk, order=_EMPTY, parts=()) for chunk in chunks]
        for run, tag in found.other_plugin_tags:
            self.add_other_plugin_tag(run, tag)
        for key, elements in found.multi_element_tags.items():
            if key in self.multi_element_tags or self.allowance.has_text(len(key[1])):
                self.multi_element_tags[key] = elements
        for run, name, wall_time, text in found.texts:
            key = (run, name.tag)
            if key not in self.texts and not self.allowance.has_text(len(name.tag) + len(text)):
                continue
            if not name.plugin_unknown:
                self._text_tags.add(key)
            previous = self.texts.get(key)
            if key in self._text_tags and (previous is None or wall_time >= previous[0]):
                self.texts[key] = (wall_time, text)

    def points(self, keys: list[Key | None]) -> Iterator[tuple[Key, Points]]:
        """Yield the points of all series parts with the same key, sorted by key. Parts without a key are left out.

        This releases the columns, so it can be called only once.
        """
        names = sorted({key for key in keys if key is not None})
        numbers = {key: number for number, key in enumerate(names)}
        series_of_part = np.array([len(names) if key is None else numbers[key] for key in keys] or [0], np.int32)
        series = series_of_part[self._column("part")]
        sort_keys = series.astype(np.uint16) if len(names) < 1 << 16 else series  # numpy uses radix sort for these
        order = np.argsort(sort_keys, kind="stable")
        in_order = Points(*(self._column(name)[order] for name in ("step", "wall_time", "value")))
        self._columns = []
        ends = np.cumsum(np.bincount(series, minlength=len(names))).tolist()
        for key, start, end in zip(names, [0, *ends], ends, strict=False):
            if end > start:
                yield key, in_order.where(slice(start, end))

    def _has_room(self, run: str, tag: bytes) -> bool:
        if len(self.parts) >= MAX_PARTS:
            return False
        return (run, tag) in self._tags or self.allowance.has_series(_name(tag))

    def _allowed(self, chunk: Columns) -> Columns | None:
        """Return the points of a chunk for which there is room, or None if there are none."""
        if LEFT_OUT in chunk.parts:
            kept = chunk.part != LEFT_OUT
            self.allowance.leave_out_tags(int(np.count_nonzero(~kept)))
            if not kept.any():
                return None
            chunk = _chosen(chunk, kept)
        if self.allowance.has_points(len(chunk.part)):
            return chunk
        tags = list(self._tags)
        first = [part for part in chunk.parts if self.allowance.comes_first(_name(tags[self._tag_of_part[part]][1]))]
        comes_first = np.isin(chunk.part, first)
        kept = np.zeros(len(chunk.part), np.bool_)
        for rows, is_first in ((comes_first, True), (~comes_first, False)):
            at = np.flatnonzero(rows)
            kept[at[: self.allowance.points(at.size, first=is_first)]] = True
        return _chosen(chunk, kept) if kept.any() else None

    def _is_ordered(self, chunks: list[Columns]) -> bool:
        """Return whether each tag's points are in record order after the chunks are concatenated."""
        last_numbers: dict[int, int] = {}
        tag_of_part = self._tag_of_part
        for chunk in chunks:
            first, last = int(chunk.order[0]), int(chunk.order[-1])
            tags = {tag_of_part[part] for part in chunk.parts}
            if any(last_numbers.get(tag, -1) >= first for tag in tags):
                return False
            last_numbers.update(dict.fromkeys(tags, last))
        return True

    def _column(self, name: str) -> NDArray[Any]:
        return np.concatenate([getattr(columns, name) for columns in self._columns] or [np.empty(0, np.int64)])


def _chosen(chunk: Columns, kept: NDArray[np.bool_]) -> Columns:
    part = chunk.part[kept]
    wall_time, value = chunk.wall_time[kept], chunk.value[kept]
    return Columns(chunk.order[kept], part, chunk.step[kept], wall_time, value, tuple(set(part.tolist())))


def _name(tag: bytes) -> str:
    return tag.decode("utf-8", "backslashreplace")


def _ordered(chunks: list[Columns]) -> Columns:
    """Merge chunks into one, in record order."""
    order = np.concatenate([chunk.order for chunk in chunks])
    place = np.full(int(order.max()) + 1, -1, np.int64)
    place[order] = np.arange(order.size)
    by_order = place[place >= 0]
    if by_order.size < order.size:  # some records hold several points
        by_order = np.argsort(order, kind="stable")
    part, step, wall_time, value = (
        np.concatenate([getattr(chunk, name) for chunk in chunks])[by_order]
        for name in ("part", "step", "wall_time", "value")
    )
    return Columns(order[by_order], part, step, wall_time, value, ())
