"""Reads single records of event files."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ml_metrics.measure.events.blocks import (
    ALWAYS_VERIFIED_SIZE,
    CHECKSUM_FAILS,
    checksum,
    skipped_tag,
)
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
    TagName,
    read_layout,
)
from ml_metrics.measure.protobuf import NonCanonicalError

if TYPE_CHECKING:
    from ml_metrics.measure.events.blocks import Session


class CorruptRecordError(Exception):
    """A record is corrupt, and so is everything after it."""


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


class RecordReader:
    """Reads single records, and collects their contents until `take_contents` is called."""

    def __init__(self, accumulator: Accumulator, *, verify: bool) -> None:
        self.accumulator = accumulator
        self.verify = verify
        self._found = BlockContents()
        self._points: list[tuple[int, int, int, float, float]] = []
        """Record, series part, step, wall time, value."""

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

    def read(self, payload: bytes | memoryview, stored: int, session: Session, record_number: int) -> Event | None:
        """Return the event if it starts a session.

        A small payload is always verified, and is in bytes. A large one is verified only if it has something to read.
        """
        small = len(payload) <= ALWAYS_VERIFIED_SIZE
        if small or self.verify:
            _verify(payload, stored)
        tag = skipped_tag(lambda start, end: bytes(payload[start:end]), len(payload)) if small else None
        if tag is not None:
            if tag:
                self._found.other_plugin_tags.add((session.run, tag))
            return None
        try:
            layout = read_layout(payload, len(payload))
        except NonCanonicalError:
            _verify(payload, stored)
            try:
                event = parse_event(bytes(payload))
            except NotAnEventError as error:
                raise CorruptRecordError("a record is not an event; the rest of the file is not read") from error
        else:
            if layout.slots or layout.texts or layout.session_start:
                _verify(payload, stored)
            event = layout.read(payload)
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


def _verify(payload: bytes | memoryview, stored: int) -> None:
    if checksum(payload) != stored:
        raise CorruptRecordError(CHECKSUM_FAILS)
