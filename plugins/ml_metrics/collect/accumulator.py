"""Points of many tags, gathered block by block until each tag is a series."""

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
    """The columns of each key, in the order in which they were added."""

    def __init__(self) -> None:
        self._parts: defaultdict[K, list[Columns]] = defaultdict(list)

    def add(self, key: K, columns: Columns) -> None:
        """Add points to a key."""
        self._parts[key].append(columns)

    def add_groups(self, keys: Sequence[K], group: NDArray[np.int64], columns: Columns) -> None:
        """Add rows that belong to several keys: `group` says by number to which of them each row does."""
        if len(keys) == 1:
            self.add(keys[0], columns)
            return
        order = np.argsort(group, kind="stable")
        ends = np.searchsorted(group[order], np.arange(len(keys) + 1))
        sorted_columns = [column[order] for column in columns]
        for number, key in enumerate(keys):
            begin, end = ends[number], ends[number + 1]
            if end > begin:
                self.add(key, tuple(column[begin:end] for column in sorted_columns))

    def __iter__(self) -> Iterator[tuple[K, Columns]]:
        """Each key with its whole columns."""
        for key, parts in self._parts.items():
            yield key, parts[0] if len(parts) == 1 else tuple(map(np.concatenate, zip(*parts, strict=True)))

    def __len__(self) -> int:
        return len(self._parts)


class Rows(Generic[K]):
    """Rows that come one by one, each of some key, until they become columns."""

    def __init__(self) -> None:
        self._rows: defaultdict[K, list[tuple[float, ...]]] = defaultdict(list)

    def add(self, key: K, *row: float) -> None:
        """Add a row."""
        self._rows[key].append(row)

    def move_to(self, points: Points[K]) -> None:
        """Hand all rows over."""
        for key, rows in self._rows.items():
            points.add(key, tuple(np.array(column) for column in zip(*rows, strict=True)))
        self._rows.clear()


def grouped(codes: Sequence[NDArray[Any]], sizes: Sequence[int]) -> tuple[list[tuple[int, ...]], NDArray[np.int64]]:
    """The combinations of several columns of codes that occur, and which of them each row has."""
    combined = np.zeros(len(codes[0]), np.int64)
    for code, size in zip(codes, sizes, strict=True):
        combined = combined * size + code
    found, group = np.unique(combined, return_inverse=True)
    keys = []
    for number in found.tolist():
        key = []
        for size in reversed(sizes):
            number, one = divmod(number, size)  # noqa: PLW2901  (unpacking the mixed number digit by digit)
            key.append(one)
        keys.append(tuple(reversed(key)))
    return keys, group.astype(np.int64)
