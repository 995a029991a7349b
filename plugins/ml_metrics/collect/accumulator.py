"""Accumulating the points of many tags, block by block, until each tag is a series."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

    from numpy.typing import NDArray

K = TypeVar("K", bound="Hashable")

Columns = tuple["NDArray[Any]", ...]


class Points(Generic[K]):
    """The columns of each key, in the order of addition."""

    def __init__(self) -> None:
        self._parts: defaultdict[K, list[Columns]] = defaultdict(list)

    def add(self, key: K, columns: Columns) -> None:
        """Add points to a key."""
        self._parts[key].append(columns)

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
        """Yield each key with its columns."""
        for key, parts in self._parts.items():
            yield key, parts[0] if len(parts) == 1 else tuple(map(np.concatenate, zip(*parts, strict=True)))

    def __len__(self) -> int:
        return len(self._parts)

    def __contains__(self, key: K) -> bool:
        return key in self._parts


class Rows(Generic[K]):
    """Rows that are added one by one, and become columns together."""

    def __init__(self) -> None:
        self._rows: defaultdict[K, list[tuple[float, ...]]] = defaultdict(list)

    def add(self, key: K, *row: float) -> None:
        """Add a row."""
        self._rows[key].append(row)

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, key: K) -> bool:
        return key in self._rows

    def move_to(self, points: Points[K]) -> None:
        """Add all rows to `points`."""
        for key, rows in self._rows.items():
            points.add(key, tuple(np.array(column) for column in zip(*rows, strict=True)))
        self._rows.clear()


def grouped(codes: Sequence[NDArray[Any]], sizes: Sequence[int]) -> tuple[list[tuple[int, ...]], NDArray[np.int64]]:
    """Return the combinations that occur in several columns of codes, and the index of each row's combination."""
    found, group = np.unique(np.ravel_multi_index(tuple(codes), sizes), return_inverse=True)
    keys = zip(*(column.tolist() for column in np.unravel_index(found, sizes)), strict=True)
    return list(keys), group.astype(np.int64)
