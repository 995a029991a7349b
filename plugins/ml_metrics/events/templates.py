"""Templates of records that have the same length and the same slots, and differ only in their numbers.

Records of one length are viewed as rows of words. A row starts seven bytes before the payload, so that the wall time,
which follows the first key, fills the second word. The mask of a template covers the bits that identify a record; rows
that are equal under the mask differ only in their numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import google_crc32c
import numpy as np

from ml_metrics.events.layout import Layout, read_layout
from ml_metrics.events.protobuf_wire import NonCanonicalError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ml_metrics.events.layout import TagName

ROW_PREFIX = 7
WORD_SIZE = 8
WALL_TIME = 1
"""The word of the wall time. Its two high bytes stay the same for years, and are part of the mask."""
STEP = 2 * WORD_SIZE + 1
"""The first byte of the step. Its key is the first byte of the third word."""
MAX_STEP_BYTES = 7
MAX_VARIANTS = 100_000
"""After so many variants, a block begins without any."""
_HASH_MULTIPLIERS = [(0x9E3779B97F4A7C15 * (2 * index + 1)) & 0xFFFFFFFFFFFFFFFF | 1 for index in range(256)]


def row_size(length: int) -> int:
    """Return the bytes of a row, for a payload of this length and its checksum."""
    return (ROW_PREFIX + length + 4 + WORD_SIZE - 1) // WORD_SIZE * WORD_SIZE


class Template:
    """Rows of one layout. Each distinct set of masked bytes is a variant."""

    def __init__(self, length: int, layout: Layout) -> None:
        self.length = length
        self.slots = tuple((ROW_PREFIX + slot.start, slot.format) for slot in layout.slots)
        start, end = layout.step or (0, 0)
        self.step_width = end - start
        step = range(STEP, STEP + self.step_width)
        slots = [offset for slot in layout.slots for offset in range(ROW_PREFIX + slot.start, ROW_PREFIX + slot.end)]
        self.changing = [*range(WALL_TIME * WORD_SIZE, WALL_TIME * WORD_SIZE + 6), *step, *slots]
        mask = np.zeros(row_size(length), np.uint8)
        mask[ROW_PREFIX : ROW_PREFIX + length] = 0xFF
        mask[self.changing] = 0
        mask[step] = 0x80  # the continuation bits of the step
        self.mask = mask.view("<u8")
        self.words = [(index, int(bits)) for index, bits in enumerate(self.mask) if bits]
        self.names: list[tuple[TagName, ...]] = []
        """By variant: the names of its slots."""
        self.constant_crcs: list[int] = []
        """By variant: the CRC of its payload with all changing bytes zeroed."""
        self._numbers: dict[bytes, int] = {}

    def variant(self, row: NDArray[np.uint64]) -> int:
        """Return the variant number of a row, or -1 if the layout of the row differs."""
        key = (row & self.mask).tobytes()
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = self._new_variant(row)
        return number

    def same_slots(self, other: Template) -> bool:
        """Return whether both templates have their numbers at the same positions."""
        return self.slots == other.slots and self.step_width == other.step_width

    def has_variant(self, row: NDArray[np.uint64]) -> bool:
        """Return whether the variant of a row is already in this template."""
        return self._numbers.get((row & self.mask).tobytes(), -1) >= 0

    def _new_variant(self, row: NDArray[np.uint64]) -> int:
        layout = shared_layout(row, self.length)
        if layout is None or not self.same_slots(Template(self.length, layout)):
            return -1
        constant = np.array(row).view(np.uint8)
        constant[self.changing] = 0
        self.constant_crcs.append(google_crc32c.value(constant[ROW_PREFIX : ROW_PREFIX + self.length].tobytes()))
        self.names.append(tuple(slot.name for slot in layout.slots))
        return len(self.names) - 1

    def same_variant(self, rows: NDArray[np.uint64], row: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Return which rows are of the same variant as the given row."""
        differs = np.zeros(len(rows), np.uint64)
        for index, bits in self.words:
            differences = rows[:, index] ^ row[..., index]
            differs |= differences & np.uint64(bits)
        same: NDArray[np.bool_] = differs == 0
        return same

    def variants(self, rows: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the variant number of each row, or -1 if it is unknown."""
        hashes = np.zeros(len(rows), np.uint64)
        for index, bits in self.words:
            hashes += (rows[:, index] & np.uint64(bits)) * np.uint64(_HASH_MULTIPLIERS[index])
        hashes ^= hashes >> np.uint64(29)
        hashes *= np.uint64(_HASH_MULTIPLIERS[-1])
        hash_buckets = (hashes >> np.uint64(50)).astype(np.intp)
        representatives = np.full(1 << 14, -1, np.intp)
        representatives[hash_buckets] = np.arange(len(rows))
        used = np.flatnonzero(representatives >= 0)
        numbers = np.full(1 << 14, -1, np.int64)
        numbers[used] = [self.variant(rows[index]) for index in representatives[used].tolist()]
        return np.where(self.same_variant(rows, rows[representatives[hash_buckets]]), numbers[hash_buckets], -1)


class TemplateCache:
    """All templates found so far."""

    def __init__(self) -> None:
        self.varied_lengths: set[int] = set()
        """Record lengths with many variants."""
        self._by_length: dict[int, list[Template]] = {}

    def trim(self) -> None:
        """Forget everything if it is much: a file in which every record has its own tag would fill the memory."""
        known = sum(len(template.names) for templates in self._by_length.values() for template in templates)
        if known > MAX_VARIANTS:
            self._by_length.clear()
            self.varied_lengths.clear()

    def of(self, row: NDArray[np.uint64], length: int) -> Template | None:
        """Return the template of a row, or None if the row has to be read on its own."""
        templates = self._by_length.setdefault(length, [])
        for template in templates:
            if template.has_variant(row):
                return template
        layout = shared_layout(row, length)
        if layout is None:
            return None
        new = Template(length, layout)
        template = next((other for other in templates if other.same_slots(new)), new)
        if template is new:
            templates.append(new)
        return template


def shared_layout(row: NDArray[np.uint64], length: int) -> Layout | None:
    """Return the layout of a row, if it applies to other rows too."""
    try:
        layout = read_layout(row.tobytes()[ROW_PREFIX : ROW_PREFIX + length], length)
    except NonCanonicalError:
        return None
    start, end = layout.step or (STEP - ROW_PREFIX, STEP - ROW_PREFIX)
    return layout if layout.reusable and start == STEP - ROW_PREFIX and end - start <= MAX_STEP_BYTES else None
