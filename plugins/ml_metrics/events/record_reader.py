"""Records read one at a time: those of which there are too few to be worth columns, and the large ones.

A layout is remembered with the bytes around its scalars, so that the next record of the same tag is found by one
look into a dictionary.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np

from ml_metrics.events.accumulator import Columns, Findings, Gathering
from ml_metrics.events.blocks import ALWAYS_CHECKED
from ml_metrics.events.checksum import checksum
from ml_metrics.events.layout import Layout, Slot, read_layout
from ml_metrics.events.protobuf_fallback import NotAnEventError, read_odd
from ml_metrics.events.skip_records import STEP, WALL_TIME
from ml_metrics.events.wire import CONTINUES, Odd, Readable, signed, varint

if TYPE_CHECKING:
    from collections.abc import Callable

    from ml_metrics.events.record import Record
    from ml_metrics.events.sessions import Session

SHORTEST = 16
"""No record with a wall time, a step and a scalar has fewer bytes."""
REMEMBERED = 100_000
"""How many layouts are remembered at once."""
LARGEST_ODD = 64 << 20
"""A record that is not written in the plain way is read whole: not beyond this size."""
Memo = tuple[tuple[slice, ...], dict[bytes, tuple[Slot, ...]]]
CHECKSUM_FAILS = "a record fails its checksum; the rest of the file is not read"
TOO_LARGE = "a record is too large for the unusual way in which it is written; the rest of the file is not read"
NOT_AN_EVENT = "a record is not an event; the rest of the file is not read"
_DOUBLE = struct.Struct("<d").unpack_from


class FaultError(Exception):
    """A record cannot be trusted, nor can what follows it."""


class Singles:
    """Reads single records, and keeps what it found until `findings` is called."""

    def __init__(self, gathering: Gathering, *, verify: bool) -> None:
        self.gathering = gathering
        self.verify = verify
        self._found = Findings()
        self._points: list[tuple[int, int, int, float, float]] = []
        """Record, part, step, wall time, value."""
        self._memos: dict[int, list[Memo]] = {}
        """By the length of what follows the step: which bytes of it tell what the record is, and what it is."""
        self._remembered = 0

    def findings(self) -> Findings:
        """What was found since the last call."""
        found, self._found = self._found, Findings()
        if self._points:
            order, part, step, wall_time, value = zip(*self._points, strict=True)
            self._points = []
            found.columns.append(
                Columns(
                    np.array(order, np.int64),
                    np.array(part, np.int32),
                    np.array(step, np.int64),
                    np.array(wall_time, np.float64),
                    np.array(value, np.float64),
                    tuple(set(part)),
                )
            )
        return found

    def small(self, payload: bytes, stored: int, session: Session, order: int) -> Record | None:
        """Read a payload that is checked in any case. Returns the record if a session begins with it."""
        if checksum(payload) != stored:
            raise FaultError(CHECKSUM_FAILS)
        if self._recall(payload, session, order):
            return None
        return self._parse(payload, len(payload), session, order, lambda: payload)

    def large(
        self, data: Readable, length: int, session: Session, order: int, checked: Callable[[], Readable]
    ) -> Record | None:
        """Read a payload that is checked only if something in it is read: `checked` returns it, or raises."""
        if self.verify:
            checked()
        return self._parse(data, length, session, order, checked)

    def _recall(self, payload: bytes, session: Session, order: int) -> bool:
        if len(payload) < SHORTEST or payload[0] != WALL_TIME:
            return False
        step, behind = _step(payload)
        rest = payload[behind:]
        for kept, known in self._memos.get(len(rest), ()):
            slots = known.get(b"".join([rest[one] for one in kept]))
            if slots is not None:
                wall_time = _DOUBLE(payload, 1)[0]
                for slot in slots:
                    part = self.gathering.number_of(session, slot.name)
                    self._points.append((order, part, step, wall_time, slot.read(rest)))
                return True
        return False

    def _parse(
        self, data: Readable, length: int, session: Session, order: int, checked: Callable[[], Readable]
    ) -> Record | None:
        try:
            layout = read_layout(data, length)
        except Odd:
            payload = checked()
            if length > LARGEST_ODD:
                raise FaultError(TOO_LARGE) from None
            try:
                record = read_odd(bytes(payload[:length]))
            except NotAnEventError as error:
                raise FaultError(NOT_AN_EVENT) from error
        else:
            if layout.slots or layout.texts or layout.session_start:
                data = checked()
            if layout.reusable and length <= ALWAYS_CHECKED:
                self._remember(layout, bytes(data[:length]))
            record = layout.read(data)
        self._keep(record, session, order)
        return record if record.session_start else None

    def _keep(self, record: Record, session: Session, order: int) -> None:
        for name, value in record.scalars:
            part = self.gathering.number_of(session, name)
            self._points.append((order, part, record.step, record.wall_time, value))
        self._found.texts += [(session.run, name, record.wall_time, text) for name, text in record.texts]
        self._found.foreign.update((session.run, tag) for tag in record.foreign)
        self._found.shaped.update({(session.run, tag): elements for tag, elements in record.shaped})

    def _remember(self, layout: Layout, payload: bytes) -> None:
        _, behind = _step(payload)
        rest = payload[behind:]
        slots = tuple(Slot(slot.name, slot.start - behind, slot.format) for slot in layout.slots)
        edges = [0, *(edge for slot in slots for edge in (slot.start, slot.end)), len(rest)]
        kept = tuple(slice(start, end) for start, end in zip(edges[::2], edges[1::2], strict=True))
        if self._remembered >= REMEMBERED:
            self._memos.clear()
            self._remembered = 0
        memos = self._memos.setdefault(len(rest), [])
        known = next((one for parts, one in memos if parts == kept), None)
        if known is None:
            known = {}
            memos.append((kept, known))
        known[b"".join([rest[one] for one in kept])] = slots
        self._remembered += 1


def _step(payload: bytes) -> tuple[int, int]:
    """The step of a record that begins with its wall time, and where the step ends."""
    if payload[9] != STEP:
        return 0, 9
    if payload[10] < CONTINUES:
        return payload[10], 11
    try:
        value, behind = varint(payload, 10, len(payload))
    except Odd:
        return 0, len(payload)
    return signed(value), behind
