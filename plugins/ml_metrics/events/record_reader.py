"""Reads records one at a time: large ones, and those of which there are too few to be read in columns.

Layouts are cached by the bytes around their scalars, so the layout of the next record of the same tag is a single
dictionary lookup.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np

from ml_metrics.events.accumulator import Accumulator, BlockContents, Columns
from ml_metrics.events.blocks import ALWAYS_VERIFIED_SIZE
from ml_metrics.events.checksum import checksum
from ml_metrics.events.layout import Layout, Slot, read_layout
from ml_metrics.events.oversized_records import CHECKSUM_FAILS, CorruptRecordError
from ml_metrics.events.protobuf_fallback import NotAnEventError, parse_event
from ml_metrics.events.protobuf_wire import CONTINUATION_BIT, NonCanonicalError, Readable, signed, varint
from ml_metrics.events.skip_records import STEP, WALL_TIME

if TYPE_CHECKING:
    from collections.abc import Callable

    from ml_metrics.events.layout import Event
    from ml_metrics.events.sessions import Session

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
            record_number, part, step, wall_time, value = zip(*self._points, strict=True)
            self._points = []
            found.columns.append(
                Columns(
                    np.array(record_number, np.int64),
                    np.array(part, np.int32),
                    np.array(step, np.int64),
                    np.array(wall_time, np.float64),
                    np.array(value, np.float64),
                    tuple(set(part)),
                )
            )
        return found

    def small(self, payload: bytes, stored: int, session: Session, record_number: int) -> Event | None:
        """Read a payload that is always verified. Returns the event if it starts a session."""
        if checksum(payload) != stored:
            raise CorruptRecordError(CHECKSUM_FAILS)
        if self._read_cached(payload, session, record_number):
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
