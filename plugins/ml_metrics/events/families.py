"""Records that are written alike: the same length, with their numbers at the same places.

Records of one length are laid side by side as rows of words, each beginning seven bytes before its payload, so that
the wall time behind the first key fills the second word. The mask of a family covers the bits that say what a row
is; rows that agree under it differ in their numbers only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import google_crc32c
import numpy as np

from ml_metrics.events.layout import Layout, read_layout
from ml_metrics.events.wire import Odd

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ml_metrics.events.record import Name

LEAD = 7
WORD = 8
WALL_TIME = 1
"""The word of the wall time. Its two leading bytes stay the same for years, and count as what a row is."""
STEP = 2 * WORD + 1
"""The byte at which a step begins: the third word begins with its key."""
WIDEST_STEP = 7
_SPREAD = [(0x9E3779B97F4A7C15 * (2 * place + 1)) & 0xFFFFFFFFFFFFFFFF | 1 for place in range(256)]


def row_size(length: int) -> int:
    """Bytes of a row, for a payload of this length and its checksum."""
    return (LEAD + length + 4 + WORD - 1) // WORD * WORD


class Family:
    """Rows of one layout, and every different one among them: its members."""

    def __init__(self, length: int, layout: Layout) -> None:
        self.length = length
        self.slots = tuple((LEAD + slot.start, slot.format) for slot in layout.slots)
        start, end = layout.step or (0, 0)
        self.step_width = end - start
        step = range(STEP, STEP + self.step_width)
        slots = [place for slot in layout.slots for place in range(LEAD + slot.start, LEAD + slot.end)]
        self.changing = [*range(WALL_TIME * WORD, WALL_TIME * WORD + 6), *step, *slots]
        mask = np.zeros(row_size(length), np.uint8)
        mask[LEAD : LEAD + length] = 0xFF
        mask[self.changing] = 0
        mask[step] = 0x80  # whether another byte of the step follows
        self.mask = mask.view("<u8")
        self.words = [(place, int(bits)) for place, bits in enumerate(self.mask) if bits]
        self.names: list[tuple[Name, ...]] = []
        """By member: the names of its numbers."""
        self.constant_crcs: list[int] = []
        """By member: the CRC of its payload with all changing bytes zero."""
        self._numbers: dict[bytes, int] = {}

    def member(self, row: NDArray[np.uint64]) -> int:
        """The number of the member that a row is; -1 if it only looks like one."""
        key = (row & self.mask).tobytes()
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = self._new_member(row)
        return number

    def same_places(self, other: Family) -> bool:
        """Whether the numbers of both stand at the same places."""
        return self.slots == other.slots and self.step_width == other.step_width

    def knows(self, row: NDArray[np.uint64]) -> bool:
        """Whether a row is a member that was met before."""
        return self._numbers.get((row & self.mask).tobytes(), -1) >= 0

    def _new_member(self, row: NDArray[np.uint64]) -> int:
        layout = plain_layout(row, self.length)
        if layout is None or not self.same_places(Family(self.length, layout)):
            return -1
        still = np.array(row).view(np.uint8)
        still[self.changing] = 0
        self.constant_crcs.append(google_crc32c.value(still[LEAD : LEAD + self.length].tobytes()))
        self.names.append(tuple(slot.name for slot in layout.slots))
        return len(self.names) - 1

    def like(self, rows: NDArray[np.uint64], one: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Which rows are the same member as this one."""
        differs = np.zeros(len(rows), np.uint64)
        for place, bits in self.words:
            here = rows[:, place] ^ one[..., place]
            differs |= here & np.uint64(bits)
        same: NDArray[np.bool_] = differs == 0
        return same

    def members(self, rows: NDArray[np.uint64]) -> NDArray[np.int64]:
        """The number of the member that each row is; -1 where that is not known."""
        mixed = np.zeros(len(rows), np.uint64)
        for place, bits in self.words:
            mixed += (rows[:, place] & np.uint64(bits)) * np.uint64(_SPREAD[place])
        mixed ^= mixed >> np.uint64(29)
        mixed *= np.uint64(_SPREAD[-1])
        bucket = (mixed >> np.uint64(50)).astype(np.intp)
        stands_for = np.full(1 << 14, -1, np.intp)
        stands_for[bucket] = np.arange(len(rows))
        used = np.flatnonzero(stands_for >= 0)
        numbers = np.full(1 << 14, -1, np.int64)
        numbers[used] = [self.member(rows[one]) for one in stands_for[used].tolist()]
        return np.where(self.like(rows, rows[stands_for[bucket]]), numbers[bucket], -1)


class Families:
    """Every family that was met."""

    def __init__(self) -> None:
        self.crowded: set[int] = set()
        """Lengths of which the records are of many members."""
        self._by_length: dict[int, list[Family]] = {}

    def of(self, row: NDArray[np.uint64], length: int) -> Family | None:
        """The family of a row, or None if the row has to be read by itself."""
        known = self._by_length.setdefault(length, [])
        for family in known:
            if family.knows(row):
                return family
        layout = plain_layout(row, length)
        if layout is None:
            return None
        new = Family(length, layout)
        family = next((one for one in known if one.same_places(new)), new)
        if family is new:
            known.append(new)
        return family


def plain_layout(row: NDArray[np.uint64], length: int) -> Layout | None:
    """The layout of a row, if it serves for other rows too."""
    try:
        layout = read_layout(row.tobytes()[LEAD : LEAD + length], length)
    except Odd:
        return None
    start, end = layout.step or (STEP - LEAD, STEP - LEAD)
    return layout if layout.reusable and start == STEP - LEAD and end - start <= WIDEST_STEP else None
