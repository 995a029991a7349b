"""Reads single records of event files, also those that do not fit into the buffer, page by page."""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING, Any, overload

import google_crc32c
import numpy as np

from ml_metrics.measure.events.blocks import ALWAYS_VERIFIED_SIZE, FOOTER, STEP, WALL_TIME, checksum, mask, skipped_tag
from ml_metrics.measure.events.columns import Accumulator, BlockContents, Columns
from ml_metrics.measure.events.layout import (
    FLOAT,
    FORMATS,
    MAX_TEXT_BYTES,
    SCALARS,
    START,
    STRING,
    TEXT,
    Event,
    Layout,
    Slot,
    TagName,
    read_layout,
)
from ml_metrics.measure.protobuf import CONTINUATION_BIT, NonCanonicalError, Readable, signed, varint

if TYPE_CHECKING:
    from collections.abc import Callable

    from ml_metrics.measure.events.blocks import OversizedRecord, Session


PAGE_SIZE = 4096
CHUNK_SIZE = 1 << 20
CHECKSUM_FAILS = "a record fails its checksum; the rest of the file is not read"


class CorruptRecordError(Exception):
    """A record is corrupt, and so is everything after it."""


class PayloadWindow:
    """A payload in a file, of which only the current page is in memory."""

    def __init__(self, record: OversizedRecord) -> None:
        self._record = record
        self._page = b""
        self._page_start = 0

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> bytes: ...
    def __getitem__(self, index: int | slice) -> int | bytes:
        """Index like bytes, with an integer or a slice without a step."""
        if isinstance(index, slice):
            start, end, _ = index.indices(self._record.length)
            return self._read(start, max(0, end - start))
        at = index - self._page_start
        if not 0 <= at < len(self._page):
            if not 0 <= index < self._record.length:
                raise IndexError(index)
            self._page, self._page_start, at = self._read(index, PAGE_SIZE), index, 0
        return self._page[at]

    def verified(self) -> PayloadWindow:
        """Return this window after verifying the checksum of the whole payload."""
        crc = 0
        for start in range(0, self._record.length, CHUNK_SIZE):
            crc = google_crc32c.extend(crc, self._read(start, CHUNK_SIZE))
        self._record.stream.seek(self._record.start + self._record.length)
        if mask(crc) != int.from_bytes(self._record.stream.read(FOOTER), "little"):
            raise CorruptRecordError(CHECKSUM_FAILS)
        return self

    def _read(self, start: int, size: int) -> bytes:
        self._record.progress(0)
        self._record.stream.seek(self._record.start + start)
        return self._record.stream.read(min(size, self._record.length - start))


BFLOAT16, HALF = 14, 19
LISTS = {1: "float_val", 2: "double_val", 3: "int_val", 4: "int_val", 5: "int_val", 6: "int_val", 9: "int64_val",
         10: "bool_val", BFLOAT16: "half_val", 17: "int_val", HALF: "half_val",
         22: "uint32_val", 23: "uint64_val"}  # fmt: skip
"""The field of a tensor that holds its elements, by the number of its data type."""


class NotAnEventError(Exception):
    """The bytes are not an event."""


def parse_event(payload: bytes) -> Event:
    """Decode any event that the protobuf library can decode."""
    from google.protobuf.message import DecodeError
    from tensorboard.compat.proto import event_pb2

    try:
        message = event_pb2.Event.FromString(payload)
    except DecodeError as error:
        raise NotAnEventError from error
    event = Event(message.wall_time, message.step, message.session_log.status == START)
    for value in message.summary.value:
        tag, kind = value.tag.encode(), value.WhichOneof("value")
        plugin = value.metadata.plugin_data.plugin_name.encode()
        if kind == "simple_value":
            event.scalars.append((TagName(tag, plugin_unknown=False, single=True), value.simple_value))
        elif kind == "tensor":
            _tensor(event, tag, plugin, value.tensor)
    return event


def _tensor(event: Event, tag: bytes, plugin: bytes, tensor: Any) -> None:
    if plugin not in {b"", SCALARS, TEXT}:
        event.other_plugin_tags.append(tag)
    elif tensor.dtype == STRING:
        if tensor.string_val and plugin != SCALARS:
            event.texts.append((TagName(tag, plugin != TEXT), tensor.string_val[0][: MAX_TEXT_BYTES + 1]))
    elif plugin != TEXT:
        numbers = _numbers(tensor)
        if len(numbers) == 1:
            event.scalars.append((TagName(tag, plugin == b"", tensor.dtype == FLOAT), float(numbers[0])))
        elif plugin == SCALARS:
            event.multi_element_tags.append((tag, len(numbers)))


def _numbers(tensor: Any) -> Any:
    """Return the elements of a numeric tensor, or nothing for other data types."""
    elements = math.prod(dim.size for dim in tensor.tensor_shape.dim)
    listed = getattr(tensor, LISTS.get(tensor.dtype, ""), ())
    if tensor.tensor_content:
        numbers = _content(tensor.dtype, tensor.tensor_content)
        return numbers if len(numbers) != 1 or elements == 1 else range(max(0, elements))
    if tensor.dtype not in LISTS:
        return ()
    if not listed:  # zeros are omitted in this format
        return [0] * elements if elements == 1 else range(max(0, elements))
    if tensor.dtype in {HALF, BFLOAT16}:  # of these, none is repeated
        return _content(tensor.dtype, np.array(listed, "<u2").tobytes()) if elements == len(listed) else ()
    if len(tensor.tensor_shape.dim) and elements != len(listed):  # the last element is repeated to fill the shape
        return range(elements)
    return listed


def _content(dtype: int, content: bytes) -> Any:
    if dtype == BFLOAT16 and len(content) % 2 == 0:  # the upper half of a float32
        return (np.frombuffer(content, "<u2").astype("<u4") << np.uint32(16)).view("<f4")
    kind = np.dtype(FORMATS[dtype]) if dtype in FORMATS else None
    if kind is None or len(content) % kind.itemsize:
        return ()
    return np.frombuffer(content, kind)


MIN_CACHED_SIZE = 16
"""The minimum size of a record with a wall time, a step and a scalar."""
MAX_CACHED_LAYOUTS = 100_000
MAX_FALLBACK_SIZE = 64 << 20
"""The maximum size of a record of unusual encoding, which has to be loaded completely."""
CachedLayouts = tuple[tuple[slice, ...], dict[bytes, tuple[Slot, ...]]]
_DOUBLE = struct.Struct("<d").unpack_from


class RecordReader:
    """Reads single records, and collects their contents until `take_contents` is called."""

    def __init__(self, accumulator: Accumulator, *, verify: bool) -> None:
        self.accumulator = accumulator
        self.verify = verify
        self._found = BlockContents()
        self._points: list[tuple[int, int, int, float, float]] = []
        """Record, series part, step, wall time, value."""
        self._cached_layouts: dict[int, list[CachedLayouts]] = {}
        """By the length of the bytes after the step: the constant ones among them, and the slots for each value."""
        self._cached_count = 0

    def take_contents(self) -> BlockContents:
        """Return everything read since the last call."""
        found, self._found = self._found, BlockContents()
        if self._points:
            order, part, step, wall_time, value = zip(*self._points, strict=True)
            self._points = []
            points = (np.array(step, np.int64), np.array(wall_time), np.array(value))
            columns = Columns(np.array(order, np.int64), np.array(part, np.int32), *points, tuple(set(part)))
            found.columns.append(columns)
        return found

    def small(self, payload: bytes, stored: int, session: Session, record_number: int) -> Event | None:
        """Read a payload that is always verified. Returns the event if it starts a session."""
        if checksum(payload) != stored:
            raise CorruptRecordError(CHECKSUM_FAILS)
        if self._read_cached(payload, session, record_number):
            return None
        tag = skipped_tag(lambda start, end: payload[start:end], len(payload))
        if tag is not None:
            if tag:
                self._found.other_plugin_tags.add((session.run, tag))
            return None
        return self._parse(payload, len(payload), session, record_number, lambda: payload)

    def large(
        self, data: Readable, length: int, session: Session, record_number: int, verified: Callable[[], Readable]
    ) -> Event | None:
        """Read a payload that is verified only if it has something to read. `verified` returns it, or raises."""
        if self.verify:
            verified()
        return self._parse(data, length, session, record_number, verified)

    def _read_cached(self, payload: bytes, session: Session, record_number: int) -> bool:
        if len(payload) < MIN_CACHED_SIZE or payload[0] != WALL_TIME:
            return False
        step, end = _step(payload)
        rest = payload[end:]
        for constant, slots_by_bytes in self._cached_layouts.get(len(rest), ()):
            slots = slots_by_bytes.get(b"".join([rest[piece] for piece in constant]))
            if slots is not None:
                wall_time = _DOUBLE(payload, 1)[0]
                for slot in slots:
                    part = self.accumulator.part_number(session, slot.name)
                    self._points.append((record_number, part, step, wall_time, slot.read(rest)))
                return True
        return False

    def _parse(
        self, data: Readable, length: int, session: Session, record_number: int, verified: Callable[[], Readable]
    ) -> Event | None:
        try:
            layout = read_layout(data, length)
        except NonCanonicalError:
            payload = verified()
            if length > MAX_FALLBACK_SIZE:
                raise CorruptRecordError(
                    "a record is too large for its unusual encoding; the rest of the file is not read"
                ) from None
            try:
                event = parse_event(bytes(payload[:length]))
            except NotAnEventError as error:
                raise CorruptRecordError("a record is not an event; the rest of the file is not read") from error
        else:
            if layout.slots or layout.texts or layout.session_start:
                data = verified()
            if layout.reusable and length <= ALWAYS_VERIFIED_SIZE:
                self._cache(layout, bytes(data[:length]))
            event = layout.read(data)
        self._keep(event, session, record_number)
        return event if event.session_start else None

    def _keep(self, event: Event, session: Session, record_number: int) -> None:
        for name, value in event.scalars:
            part = self.accumulator.part_number(session, name)
            self._points.append((record_number, part, event.step, event.wall_time, value))
        self._found.texts += [(session.run, name, event.wall_time, text) for name, text in event.texts]
        self._found.other_plugin_tags.update((session.run, tag) for tag in event.other_plugin_tags)
        self._found.multi_element_tags.update(
            {(session.run, tag): elements for tag, elements in event.multi_element_tags}
        )

    def _cache(self, layout: Layout, payload: bytes) -> None:
        _, end = _step(payload)
        rest = payload[end:]
        slots = tuple(Slot(slot.name, slot.start - end, slot.format) for slot in layout.slots)
        edges = [0, *(edge for slot in slots for edge in (slot.start, slot.end)), len(rest)]
        constant = tuple(slice(start, end) for start, end in zip(edges[::2], edges[1::2], strict=True))
        if self._cached_count >= MAX_CACHED_LAYOUTS:
            self._cached_layouts.clear()
            self._cached_count = 0
        cached = self._cached_layouts.setdefault(len(rest), [])
        slots_by_bytes = next((slots_of for pieces, slots_of in cached if pieces == constant), None)
        if slots_by_bytes is None:
            slots_by_bytes = {}
            cached.append((constant, slots_by_bytes))
        slots_by_bytes[b"".join([rest[piece] for piece in constant])] = slots
        self._cached_count += 1


def _step(payload: bytes) -> tuple[int, int]:
    """Return the step of a record that starts with its wall time, and the end of the step."""
    if payload[9] != STEP:
        return 0, 9
    if payload[10] < CONTINUATION_BIT:
        return payload[10], 11
    try:
        value, end = varint(payload, 10, len(payload))
    except NonCanonicalError:
        return 0, len(payload)
    return signed(value), end
