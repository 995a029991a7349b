"""Many records of one length at once, in columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ml_metrics.events.accumulator import Columns, Gathering
from ml_metrics.events.checksum import byte_table, mask_all
from ml_metrics.events.families import LEAD, STEP, WALL_TIME, WORD, Families, Family, row_size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ml_metrics.events.sessions import Session

FEWEST = 96
"""With fewer rows than this it costs less to read one record after the other."""
LONGEST = 1024
"""Records longer than this are read one by one: they hold many values or none."""
MOST_TRIES = 8
"""So often a group is looked at, for families and members that are in it."""
WIDEST_TABLE = 1 << 20
MOST = 1 << 16
"""Rows that are worked on at once: they stay in the processor's cache."""


@dataclass(frozen=True, slots=True)
class Group:
    """Records of one length."""

    records: NDArray[np.int64]
    """Their numbers in the block."""
    offsets: NDArray[np.int64]
    """Where their payloads begin in the buffer."""
    sessions: NDArray[np.int64]
    """The number of the session of each."""
    length: int

    def part(self, chosen: NDArray[np.int64] | NDArray[np.bool_] | slice) -> Group:
        """Some of the records."""
        return Group(self.records[chosen], self.offsets[chosen], self.sessions[chosen], self.length)


class ColumnReader:
    """Reads groups of records of one block."""

    def __init__(
        self, gathering: Gathering, families: Families, buffer: NDArray[np.uint8], sessions: Sequence[Session]
    ) -> None:
        self.gathering = gathering
        self.families = families
        self.buffer = buffer
        self.sessions = sessions
        self.found: list[Columns] = []
        self.left: list[NDArray[np.int64]] = []
        """The numbers of records that have to be read one by one."""
        self.corrupt: list[NDArray[np.int64]] = []
        """The numbers of records that fail their checksum."""

    def read(self, group: Group) -> None:
        """Read the records of a group, or leave them."""
        rows = self._rows(group)
        direct = group.length not in self.families.crowded
        for _ in range(MOST_TRIES):
            if len(rows) < FEWEST:
                break
            family = self.families.of(rows[0], group.length)
            if family is None:
                self.left.append(group.records[:1])
                rows, group = rows[1:], group.part(slice(1, None))
                continue
            if direct:
                members: NDArray[np.int64] | int = family.member(rows[0])
                agrees = family.like(rows, rows[0])
            else:
                members = family.members(rows)
                agrees = members >= 0
                members = members[agrees]
            if not agrees.any():
                break
            if agrees.all():
                self._emit(family, members, rows, group)
                return
            self._emit(family, members, rows[agrees], group.part(agrees))
            if direct and 2 * int(agrees.sum()) < len(rows):
                direct = False
                self.families.crowded.add(group.length)
            rows, group = rows[~agrees], group.part(~agrees)
        self.left.append(group.records)

    def _rows(self, group: Group) -> NDArray[np.uint64]:
        size = row_size(group.length)
        anywhere = np.ndarray((self.buffer.size - size + 1,), f"V{size}", self.buffer, strides=(1,))
        return anywhere[group.offsets - LEAD].view("<u8").reshape(-1, size // WORD)

    def _emit(self, family: Family, members: NDArray[np.int64] | int, rows: NDArray[np.uint64], group: Group) -> None:
        intact = checksums(family, members, rows) == _strided(rows, LEAD + family.length, "<u4")
        if not intact.all():
            self.corrupt.append(group.records[~intact])
        wall_time = rows[:, WALL_TIME].copy().view("<f8")  # a view would keep the rows
        step = steps(family, rows)
        used, which = _used(group.sessions * len(family.names) + members)
        for slot, (place, kind) in enumerate(family.slots):
            parts = [self._part(family, one, slot) for one in used]
            self.found.append(
                Columns(
                    group.records,
                    np.array(parts, np.int32)[which],
                    step,
                    wall_time,
                    _strided(rows, place, kind).astype(np.float64),
                    tuple(parts),
                )
            )

    def _part(self, family: Family, session_and_member: int, slot: int) -> int:
        session, member = divmod(session_and_member, len(family.names))
        return self.gathering.number_of(self.sessions[session], family.names[member][slot])


def _used(numbers: NDArray[np.int64]) -> tuple[list[int], NDArray[np.int64]]:
    """The different numbers, and which of them each one is."""
    first, last = int(numbers.min()), int(numbers.max())
    if first == last:
        return [first], np.zeros(len(numbers), np.int64)
    if last - first > WIDEST_TABLE:
        unique, which = np.unique(numbers, return_inverse=True)
        return unique.tolist(), which
    numbers = numbers - first
    present = np.zeros(last - first + 1, np.bool_)
    present[numbers] = True
    return (np.flatnonzero(present) + first).tolist(), (np.cumsum(present) - 1)[numbers]


def checksums(family: Family, members: NDArray[np.int64] | int, rows: NDArray[np.uint64]) -> NDArray[np.uint32]:
    """The checksum of each row's payload."""
    crc = np.array(family.constant_crcs, np.uint32)[np.broadcast_to(members, len(rows))]
    places = rows.view(np.uint8)
    for place in family.changing:
        crc ^= byte_table(LEAD + family.length - 1 - place).take(places[:, place])
    return mask_all(crc)


def steps(family: Family, rows: NDArray[np.uint64]) -> NDArray[np.int64]:
    """The step of each row: groups of seven bits, the lowest first."""
    if not family.step_width:
        return np.zeros(len(rows), np.int64)
    word = rows[:, STEP // WORD] >> np.uint64(8)
    step = word & np.uint64(0x7F)
    for byte in range(1, family.step_width):
        step |= (word >> np.uint64(byte)) & np.uint64(0x7F << (7 * byte))
    return step.view(np.int64)


def _strided(rows: NDArray[np.uint64], place: int, kind: str) -> NDArray[Any]:
    """The values that stand at this byte of each row."""
    return np.ndarray((len(rows),), kind, rows, offset=place, strides=(rows.strides[0],))
