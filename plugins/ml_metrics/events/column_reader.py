"""Reads many records of the same length at once, column by column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ml_metrics.events.accumulator import Accumulator, Columns
from ml_metrics.events.checksum import byte_table, mask_all
from ml_metrics.events.templates import ROW_PREFIX, STEP, WALL_TIME, WORD_SIZE, Template, TemplateCache, row_size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ml_metrics.events.sessions import Session

MIN_GROUP_ROWS = 96
"""Smaller groups are read faster record by record."""
MAX_RECORD_LENGTH = 1024
"""Longer records are read one by one: they hold many values or none."""
MAX_ATTEMPTS = 8
"""How often a group is searched for templates and variants before the rest is read one by one."""
MAX_TABLE_SIZE = 1 << 20
MAX_GROUP_ROWS = 1 << 16
"""The number of rows processed at once, so that they stay in the processor's cache."""


@dataclass(frozen=True, slots=True)
class Group:
    """Records of the same length."""

    records: NDArray[np.int64]
    """Their numbers in the block."""
    offsets: NDArray[np.int64]
    """Where their payloads start in the buffer."""
    sessions: NDArray[np.int64]
    """The number of each record's session."""
    length: int

    def select(self, chosen: NDArray[np.int64] | NDArray[np.bool_] | slice) -> Group:
        """Return some of the records."""
        return Group(self.records[chosen], self.offsets[chosen], self.sessions[chosen], self.length)


class ColumnReader:
    """Reads groups of records of one block."""

    def __init__(
        self, accumulator: Accumulator, templates: TemplateCache, buffer: NDArray[np.uint8], sessions: Sequence[Session]
    ) -> None:
        self.accumulator = accumulator
        self.templates = templates
        self.buffer = buffer
        self.sessions = sessions
        self.found: list[Columns] = []
        self.unread: list[NDArray[np.int64]] = []
        """The numbers of records that have to be read one by one."""
        self.corrupt: list[NDArray[np.int64]] = []
        """The numbers of records that fail their checksum."""

    def read(self, group: Group) -> None:
        """Read the records of a group. Records without a template are added to `unread`."""
        rows = self._rows(group)
        compare_to_first = group.length not in self.templates.varied_lengths
        for _ in range(MAX_ATTEMPTS):
            if len(rows) < MIN_GROUP_ROWS:
                break
            template = self.templates.of(rows[0], group.length)
            if template is None:
                self.unread.append(group.records[:1])
                rows, group = rows[1:], group.select(slice(1, None))
                continue
            if compare_to_first:
                variants: NDArray[np.int64] | int = template.variant(rows[0])
                matches = template.same_variant(rows, rows[0])
            else:
                variants = template.variants(rows)
                matches = variants >= 0
                variants = variants[matches]
            if not matches.any():
                break
            if matches.all():
                self._add_columns(template, variants, rows, group)
                return
            self._add_columns(template, variants, rows[matches], group.select(matches))
            if compare_to_first and 2 * int(matches.sum()) < len(rows):
                compare_to_first = False
                self.templates.varied_lengths.add(group.length)
            rows, group = rows[~matches], group.select(~matches)
        self.unread.append(group.records)

    def _rows(self, group: Group) -> NDArray[np.uint64]:
        size = row_size(group.length)
        anywhere = np.ndarray((self.buffer.size - size + 1,), f"V{size}", self.buffer, strides=(1,))
        return anywhere[group.offsets - ROW_PREFIX].view("<u8").reshape(-1, size // WORD_SIZE)

    def _add_columns(
        self, template: Template, variants: NDArray[np.int64] | int, rows: NDArray[np.uint64], group: Group
    ) -> None:
        intact = checksums(template, variants, rows) == _strided(rows, ROW_PREFIX + template.length, "<u4")
        if not intact.all():
            self.corrupt.append(group.records[~intact])
        wall_time = rows[:, WALL_TIME].copy().view("<f8")  # a copy, because a view would keep the rows in memory
        step = steps(template, rows)
        used, which = _distinct(group.sessions * len(template.names) + variants)
        for slot, (offset, kind) in enumerate(template.slots):
            parts = [self._part(template, one, slot) for one in used]
            with np.errstate(invalid="ignore"):  # a signalling NaN is a NaN like any other
                values = _strided(rows, offset, kind).astype(np.float64)
            self.found.append(
                Columns(group.records, np.array(parts, np.int32)[which], step, wall_time, values, tuple(parts))
            )

    def _part(self, template: Template, session_and_variant: int, slot: int) -> int:
        session, variant = divmod(session_and_variant, len(template.names))
        return self.accumulator.part_number(self.sessions[session], template.names[variant][slot])


def _distinct(numbers: NDArray[np.int64]) -> tuple[list[int], NDArray[np.int64]]:
    """Return the distinct numbers, and the index of each number among them."""
    first, last = int(numbers.min()), int(numbers.max())
    if first == last:
        return [first], np.zeros(len(numbers), np.int64)
    if last - first > MAX_TABLE_SIZE:
        unique, which = np.unique(numbers, return_inverse=True)
        return unique.tolist(), which
    numbers = numbers - first
    present = np.zeros(last - first + 1, np.bool_)
    present[numbers] = True
    return (np.flatnonzero(present) + first).tolist(), (np.cumsum(present) - 1)[numbers]


def checksums(template: Template, variants: NDArray[np.int64] | int, rows: NDArray[np.uint64]) -> NDArray[np.uint32]:
    """Return the checksum of each row's payload."""
    crc = np.array(template.constant_crcs, np.uint32)[np.broadcast_to(variants, len(rows))]
    row_bytes = rows.view(np.uint8)
    for offset in template.changing:
        crc ^= byte_table(ROW_PREFIX + template.length - 1 - offset).take(row_bytes[:, offset])
    return mask_all(crc)


def steps(template: Template, rows: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return the step of each row, stored as groups of seven bits, lowest first."""
    if not template.step_width:
        return np.zeros(len(rows), np.int64)
    word = rows[:, STEP // WORD_SIZE] >> np.uint64(8)
    step = word & np.uint64(0x7F)
    for byte in range(1, template.step_width):
        step |= (word >> np.uint64(byte)) & np.uint64(0x7F << (7 * byte))
    return step.view(np.int64)


def _strided(rows: NDArray[np.uint64], offset: int, kind: str) -> NDArray[Any]:
    """Return the values at this byte of each row."""
    return np.ndarray((len(rows),), kind, rows, offset=offset, strides=(rows.strides[0],))
