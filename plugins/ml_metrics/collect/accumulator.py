"""Accumulating the points of many tags, block by block, until each tag is a series."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from ml_metrics.limits import Allowance

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

    from numpy.typing import NDArray

K = TypeVar("K", bound="tuple[Hashable, ...]")
"""The last part of a key is the tag."""

Columns = tuple["NDArray[Any]", ...]


ROW = 3
"""The numbers of a point: step, time and value. In a flat list they cost the garbage collector nothing."""
MAX_WAITING = 500_000
"""How many points wait as Python objects, which take several times the memory of columns."""


class Points(Generic[K]):
    """The columns of each key, in the order of addition, as far as the run's allowance goes."""

    def __init__(self, allowance: Allowance | None = None) -> None:
        self.allowance = allowance or Allowance()
        self._parts: dict[K, list[Columns]] = {}
        self._rows: dict[K, list[float]] = {}
        """Points that were added one by one, and are not columns yet: there may be few for each of many keys."""
        self._waiting = 0

    def add(self, key: K, columns: Columns) -> None:
        """Add points to a key."""
        if rows := self._rows.get(key):
            self._to_columns(key, rows)
        if self._has_room(key):
            self._append(key, columns)
        else:
            self.leave_out(len(columns[0]))

    def rows_of(self, key: K) -> list[float] | None:
        """Return the list to which the step, time and value of a point are appended. It is always the same list.

        None if there is no room for another key: the caller then counts its points with `leave_out`.
        """
        rows = self._rows.get(key)
        if rows is None and self._has_room(key):
            rows = self._rows[key] = []
        return rows

    def leave_out(self, count: int = 1) -> None:
        """Count points of keys for which there is no room."""
        self.allowance.leave_out_tags(count)

    def appended(self, count: int) -> None:
        """Count points that were appended."""
        self._waiting += count
        if self._waiting > MAX_WAITING:
            self._settle()

    def add_groups(self, keys: Sequence[K], group: NDArray[np.int64], columns: Columns) -> None:
        """Add rows of several keys. `group` has the index of each row's key."""
        if len(keys) == 1:
            self.add(keys[0], columns)
            return
        order = np.argsort(group, kind="stable")
        ends = np.searchsorted(group[order], np.arange(len(keys) + 1))
        sorted_columns = [column[order] for column in columns]
        for number, key in enumerate(keys):
            start, end = ends[number], ends[number + 1]
            if end > start:
                self.add(key, tuple(column[start:end] for column in sorted_columns))

    def __iter__(self) -> Iterator[tuple[K, Columns]]:
        """Yield each key with its columns: steps, times and values."""
        self._settle()
        for key, parts in self._parts.items():
            if not parts:
                continue
            _join(parts, len(parts))
            step, times, *values = parts[0]
            yield key, (step.astype(np.int64, copy=False), without_set_back(step, times), *values)

    def __len__(self) -> int:
        return len(self._parts)

    def __contains__(self, key: K) -> bool:
        return key in self._parts

    def _settle(self) -> None:
        for key, rows in self._rows.items():
            if rows:
                self._to_columns(key, rows)
        self._waiting = 0

    def _has_room(self, key: K) -> bool:
        if key in self._parts:
            return True
        if not self.allowance.has_series(str(key[-1])):
            return False
        self._parts[key] = []
        return True

    def _to_columns(self, key: K, rows: list[float]) -> None:
        self._append(key, tuple(np.array(rows[column::ROW]) for column in range(ROW)))
        self._waiting -= len(rows) // ROW
        rows.clear()

    def _append(self, key: K, columns: Columns) -> None:
        count = len(columns[0])
        kept = count
        if not self.allowance.has_points(count):
            kept = self.allowance.points(count, first=self.allowance.comes_first(str(key[-1])))
        if not kept:
            return
        parts = self._parts[key]
        parts.append(columns if kept == count else tuple(column[:kept].copy() for column in columns))
        while len(parts) > 1 and len(parts[-2][0]) <= len(parts[-1][0]):  # large arrays leave no gaps in memory
            _join(parts, 2)


def _join(parts: list[Columns], count: int) -> None:
    """Make the last parts one. Memory holds no more than one of their columns twice."""
    if count < 2:  # noqa: PLR2004
        return
    rest = [list(reversed(part)) for part in parts[-count:]]
    del parts[-count:]
    parts.append(tuple(np.concatenate([part.pop() for part in rest]) for _ in range(len(rest[0]))))


def without_set_back(step: NDArray[Any], times: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the times of points in the order of writing, without those of a clock that was set back.

    Local times repeat an hour when summer time ends. A point that was written later, at a greater step, has at least
    the time of the one before it. Where steps go back, a restart or another writer begins, and its times count.
    """
    with np.errstate(invalid="ignore"):
        is_back = (times[1:] < times[:-1]) & (step[1:] > step[:-1])
    if not is_back.any():
        return times
    begins = np.concatenate([[0], np.flatnonzero(step[1:] <= step[:-1]) + 1, [len(times)]])
    corrected = times.copy()
    for of in np.unique(np.searchsorted(begins, np.flatnonzero(is_back), side="right")):
        grows = slice(begins[of - 1], begins[of])
        np.fmax.accumulate(corrected[grows], out=corrected[grows])
    corrected[np.isnan(times)] = np.nan
    return corrected


def grouped(codes: Sequence[NDArray[Any]], sizes: Sequence[int]) -> tuple[list[tuple[int, ...]], NDArray[np.int64]]:
    """Return the combinations that occur in several columns of codes, and the index of each row's combination."""
    found, group = np.unique(np.ravel_multi_index(tuple(codes), sizes), return_inverse=True)
    keys = zip(*(column.tolist() for column in np.unravel_index(found, sizes)), strict=True)
    return list(keys), group.astype(np.int64)
