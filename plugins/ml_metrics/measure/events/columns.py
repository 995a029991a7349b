"""The contents of all blocks, accumulated in columns and returned as one series per tag."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import google_crc32c
import numpy as np

from ml_metrics.core.limits import Allowance
from ml_metrics.measure.events.blocks import TENSOR, Points, byte_table, mask, only_value, skipped_tag
from ml_metrics.measure.events.layout import Layout, read_layout
from ml_metrics.measure.protobuf import NonCanonicalError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from ml_metrics.measure.events.blocks import Session
    from ml_metrics.measure.events.layout import TagName


Key = tuple[str, str, int]
LEFT_OUT = -1
"""The number of a series part for which there is no room."""
MAX_PARTS = 1_000_000
"""Parts are made by tags and by starts of processes, so there may be many of few tags."""


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
        if number is not None:
            return number
        key = (session.run, name.tag)
        if len(self.parts) >= MAX_PARTS or not (key in self._tags or self.allowance.has_series(tag_text(name.tag))):
            return LEFT_OUT
        # floats of 32 and of 64 bits of one tag are one part, in the order of writing
        number = self.parts.setdefault((session, name._replace(single=False)), len(self.parts))
        self._numbers[session, name] = number
        if number == len(self._tag_of_part):
            self._tag_of_part.append(self._tags.setdefault(key, len(self._tags)))
        if name.single:
            self.single.add(number)
        return number

    def add_other_plugin_tag(self, run: str, tag: bytes) -> None:
        key = (run, tag)
        if key not in self.other_plugin_tags and self.allowance.has_text(len(tag)):
            self.other_plugin_tags.add(key)

    def add(self, found: BlockContents) -> None:
        columns = [one for chunk in found.columns if (one := self._allowed(chunk)) is not None]
        chunks = columns if self._is_ordered(columns) else [_ordered(columns)]
        self._columns += [replace(chunk, order=np.empty(0, np.int64), parts=()) for chunk in chunks]
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
        first = [part for part in chunk.parts if self.allowance.comes_first(tag_text(tags[self._tag_of_part[part]][1]))]
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


def tag_text(tag: bytes) -> str:
    return tag.decode("utf-8", "backslashreplace")


def _ordered(chunks: list[Columns]) -> Columns:
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


ROW_PREFIX = 7
WORD_SIZE = 8
ALL_BITS = 2**64 - 1
WALL_TIME = 1
"""The word of the wall time. Its two high bytes stay the same for years, and are part of the mask."""
STEP = 2 * WORD_SIZE + 1
"""The first byte of the step. Its key is the first byte of the third word."""
_HASH_MULTIPLIERS = [(0x9E3779B97F4A7C15 * (2 * index + 1)) & 0xFFFFFFFFFFFFFFFF | 1 for index in range(520)]


def row_size(length: int) -> int:
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
        frame = mask.copy()
        for tag in layout.tags:
            frame[ROW_PREFIX + tag.start : ROW_PREFIX + tag.stop] = 0
        self.words, self.frame, self.tags = (
            [(index, np.uint64(bits)) for index, bits in enumerate(one.view("<u8")) if bits]
            for one in (mask, frame, mask ^ frame)
        )
        """The words, and which of their bits, that rows of a variant have in common; rows of all; and those of tags."""
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
        return self.slots == other.slots and self.step_width == other.step_width

    def has_variant(self, row: NDArray[np.uint64]) -> bool:
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

    def variants(self, rows: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the variant number of each row with the same frame, or -1 if it is unknown."""
        columns = [rows[:, index] & bits for index, bits in self.tags]
        hashes = np.zeros(len(rows), np.uint64)
        for column, multiplier in zip(columns, _HASH_MULTIPLIERS, strict=False):
            hashes += column * np.uint64(multiplier)
        hashes ^= hashes >> np.uint64(29)
        hashes *= np.uint64(_HASH_MULTIPLIERS[-1])
        hash_buckets = (hashes >> np.uint64(51)).astype(np.intp)
        representatives = np.full(1 << 13, -1, np.intp)
        representatives[hash_buckets] = np.arange(len(rows))
        used = np.flatnonzero(representatives >= 0)
        numbers = np.full(1 << 13, -1, np.int64)
        numbers[used] = [self.variant(rows[index]) for index in representatives[used].tolist()]
        like, found = representatives[hash_buckets], numbers[hash_buckets]
        for column in columns:
            found[column != column[like]] = -1
        return found


def _agree(rows: NDArray[np.uint64], row: NDArray[np.uint64], words: Sequence[tuple[int, Any]]) -> NDArray[np.bool_]:
    same = np.ones(len(rows), np.bool_)
    for index, bits in words:
        same &= (rows[:, index] if bits == ALL_BITS else rows[:, index] & bits) == row[index] & bits
    return same


class TemplateCache:
    """All templates found so far."""

    def __init__(self) -> None:
        self._by_length: dict[int, list[Template]] = {}

    def trim(self) -> None:
        """Forget everything if it is much: a file in which every record has its own tag would fill the memory."""
        known = sum(len(template.names) for templates in self._by_length.values() for template in templates)
        if known > 100_000:
            self._by_length.clear()

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
    return layout if layout.reusable and start == STEP - ROW_PREFIX and end - start <= 7 else None


MIN_GROUP_ROWS = 24
"""Smaller groups are read faster record by record."""
MAX_ATTEMPTS = 8
"""How often a group is searched for templates and variants before the rest is read one by one."""
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
        self.other_plugin_tags: set[tuple[str, bytes]] = set()

    def read(self, group: Group) -> None:
        """Read the records of a group. Records without a template are added to `unread`."""
        rows = self._rows(group)
        for _ in range(MAX_ATTEMPTS):
            if len(rows) < MIN_GROUP_ROWS:
                break
            template = self.templates.of(rows[0], group.length)
            nothing = self._without_numbers(rows, group) if template is None else None
            if nothing is not None:
                rows, group = rows[~nothing], group.select(~nothing)
                continue
            if template is None:
                self.unread.append(group.records[:1])
                rows, group = rows[1:], group.select(slice(1, None))
                continue
            if all(_agree(some, rows[0], template.words).all() for some in (rows[:32], rows)):
                self._add_columns(template, template.variant(rows[0]), rows, group)
                return
            matches = _agree(rows, rows[0], template.frame)
            framed, of_frame = (rows, group) if matches.all() else (rows[matches], group.select(matches))
            variants = template.variants(framed)
            known = variants >= 0
            if not known.any():
                break
            if not known.all():
                variants, framed, of_frame = variants[known], framed[known], of_frame.select(known)
            self._add_columns(template, variants, framed, of_frame)
            matches[matches] = known
            rows, group = rows[~matches], group.select(~matches)
        self.unread.append(group.records)

    def _without_numbers(self, rows: NDArray[np.uint64], group: Group) -> NDArray[np.bool_] | None:
        """Return which rows hold nothing to read for the same reason as the first one, or a text of the same tag.

        None if the first row holds anything else. Only the last text of a tag is read.
        """
        payload = rows[0].tobytes()[ROW_PREFIX : ROW_PREFIX + group.length]
        value = only_value(payload, group.length)
        if value is None or value.summary < STEP - ROW_PREFIX - 1:
            return None
        changing = slice(value.content, value.end)
        other_tag = skipped_tag(lambda start, end: payload[start:end], group.length)
        if other_tag is None:
            try:
                ((_, changing),) = read_layout(payload, group.length).texts
            except ValueError:
                return None
        frame = np.zeros(row_size(group.length), np.uint8)
        of_payload = frame[ROW_PREFIX : ROW_PREFIX + group.length]
        of_payload[:] = 0xFF
        of_payload[1:9] = 0  # the wall time
        of_payload[STEP - ROW_PREFIX : value.summary] = 0x80
        of_payload[changing] = 0
        if value.kind != TENSOR:
            of_payload[value.tag_start : value.tag_start + len(value.tag)] = 0
        same = _agree(rows, rows[0], [(index, bits) for index, bits in enumerate(frame.view("<u8")) if bits])
        chosen = group.select(same)
        data = memoryview(self.buffer)  # type: ignore[arg-type]  # missing in numpy's stubs
        ends = (chosen.offsets + group.length).tolist()
        crcs = [google_crc32c.value(data[end - group.length : end].tobytes()) for end in ends]
        wrong = mask(np.array(crcs, np.uint32)) != _strided(rows, ROW_PREFIX + group.length, "<u4")[same]
        if wrong.any():
            self.corrupt.append(chosen.records[wrong])
        if other_tag is None:
            wall_time = rows[same, WALL_TIME].view("<f8")
            superseded = (np.diff(chosen.sessions) == 0) & (wall_time[1:] >= wall_time[:-1])
            self.unread.append(chosen.records[~np.append(superseded, False)])
        elif other_tag:
            self.other_plugin_tags |= {
                (self.sessions[one].run, other_tag) for one in np.unique(chosen.sessions).tolist()
            }
        return same

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
    first, last = int(numbers.min()), int(numbers.max())
    if first == last:
        return [first], np.zeros(len(numbers), np.int64)
    if last - first > 1 << 20:  # a table would be too large
        unique, which = np.unique(numbers, return_inverse=True)
        return unique.tolist(), which
    numbers = numbers - first
    present = np.zeros(last - first + 1, np.bool_)
    present[numbers] = True
    return (np.flatnonzero(present) + first).tolist(), (np.cumsum(present) - 1)[numbers]


def checksums(template: Template, variants: NDArray[np.int64] | int, rows: NDArray[np.uint64]) -> NDArray[np.uint32]:
    crc = np.array(template.constant_crcs, np.uint32)[np.broadcast_to(variants, len(rows))]
    row_bytes = rows.view(np.uint8)
    for offset in template.changing:
        crc ^= byte_table(ROW_PREFIX + template.length - 1 - offset).take(row_bytes[:, offset])
    masked: NDArray[np.uint32] = mask(crc)
    return masked


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
    return np.ndarray((len(rows),), kind, rows, offset=offset, strides=(rows.strides[0],))
