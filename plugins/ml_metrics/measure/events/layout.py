"""Finds the parts of one record: its wall time, its step and each scalar.

A layout applies to every record that has the same bytes everywhere else, so almost all records of a file are read
without being parsed.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import NamedTuple

from ml_metrics.measure.protobuf import (
    BYTES,
    FIXED32,
    FIXED64,
    VARINT,
    NonCanonicalError,
    Readable,
    fields,
    signed,
    varint,
)

MAX_TEXT_BYTES = 1 << 16
"""The number of bytes kept of a text. A whole log as a text summary would bloat every table and document."""
SCALARS = b"scalars"
TEXT = b"text"
FLOAT = 1
STRING = 7
START = 1
"""The status in a session log that marks the start of a process."""
FORMATS = {
    1: "<f4", 2: "<f8", 3: "<i4", 4: "|u1", 5: "<i2", 6: "|i1", 9: "<i8", 10: "|u1", 17: "<u2", 19: "<f2",
    22: "<u4", 23: "<u8"
}  # fmt: skip
"""The number format of a tensor's content, by the number of its data type."""
FORMATS |= {100 + kind: name for kind, name in FORMATS.items()}  # TensorFlow's types for references to variables
SIZES = {name: int(name[2:]) for name in FORMATS.values()}
_UNPACK = {
    name: struct.Struct("<" + code).unpack
    for name, code in zip(
        ("<f4", "<f8", "<f2", "<i2", "<i4", "<i8", "|i1", "|u1", "<u2", "<u4", "<u8"), "fdehiqbBHIQ", strict=True
    )
}

# event
WALL_TIME, STEP, SUMMARY, SESSION_LOG, SOURCE_METADATA = 1, 2, 5, 7, 10
# summary value
TAG, SIMPLE_VALUE, TENSOR, METADATA = 1, 2, 8, 9
KINDS = {2, 3, 4, 5, 6, 8}
# shape of a tensor
DIM = 2
# tensor
DTYPE, SHAPE, CONTENT, STRING_VAL = 1, 2, 4, 8
TENSOR_KINDS = {DTYPE: VARINT, SHAPE: BYTES, CONTENT: BYTES}
LISTED = {(1, 5): "<f4", (2, 6): "<f8"}
"""The number format of an element in `float_val` or `double_val`, by the data type and the field."""


class TagName(NamedTuple):
    """The tag of a value, whether its plugin is unknown, and whether it is a 32-bit float."""

    tag: bytes
    plugin_unknown: bool
    """The value is a tensor without the name of its plugin. Other events of the tag may name it."""
    single: bool = False
    """The value is a 32-bit float, which holds a time of this century to 128 seconds only."""


@dataclass(slots=True)
class Event:
    """One event."""

    wall_time: float = 0.0
    step: int = 0
    session_start: bool = False
    """A process starts here, and overwrites everything from this step on."""
    scalars: list[tuple[TagName, float]] = field(default_factory=list)
    texts: list[tuple[TagName, bytes]] = field(default_factory=list)
    """Truncated to one byte more than `MAX_TEXT_BYTES`, which marks a longer text."""
    other_plugin_tags: list[bytes] = field(default_factory=list)
    """Tags of tensors that belong to a plugin other than scalars and text."""
    multi_element_tags: list[tuple[bytes, int]] = field(default_factory=list)
    """Tags of the scalars plugin whose tensors do not have exactly one element, with the number of elements."""


@dataclass(frozen=True, slots=True)
class Slot:
    """The position of one scalar in a record."""

    name: TagName
    start: int
    format: str

    @property
    def end(self) -> int:
        return self.start + SIZES[self.format]

    def read(self, data: Readable) -> float:
        return float(_UNPACK[self.format](data[self.start : self.end])[0])


@dataclass(slots=True)
class Layout:
    """The positions of a record's parts, relative to the start of its payload."""

    wall_time: int | None = None
    step: tuple[int, int] | None = None
    session_start: bool = False
    slots: list[Slot] = field(default_factory=list)
    tags: list[slice] = field(default_factory=list)
    texts: list[tuple[TagName, slice]] = field(default_factory=list)
    other_plugin_tags: list[bytes] = field(default_factory=list)
    """Tags of tensors that belong to a plugin other than scalars and text."""

    @property
    def reusable(self) -> bool:
        return bool(self.slots) and not self.texts and not self.other_plugin_tags and self.wall_time == 1

    def read(self, data: Readable) -> Event:
        return Event(
            0.0 if self.wall_time is None else float(_UNPACK["<f8"](data[self.wall_time : self.wall_time + 8])[0]),
            0 if self.step is None else signed(varint(data, *self.step)[0]),
            self.session_start,
            [(slot.name, slot.read(data)) for slot in self.slots],
            [
                (name, bytes(data[span.start : min(span.stop, span.start + MAX_TEXT_BYTES + 1)]))
                for name, span in self.texts
            ],
            self.other_plugin_tags,
        )


def read_layout(data: Readable, length: int) -> Layout:
    """Find the parts of a record. Raises `NonCanonicalError` if its encoding is unusual."""
    layout = Layout()
    contents = 0
    for number, kind, start, end in fields(data, 0, length):
        if number == WALL_TIME and kind == FIXED64:
            layout.wall_time = start
        elif number == STEP and kind == VARINT:
            layout.step = (start, end)
        elif number == SOURCE_METADATA and kind == BYTES:
            pass  # the name of the writer, beside the version in the first record
        elif number > STEP and kind == BYTES and contents == 0:
            contents += 1
            if number == SUMMARY:
                for one, its_kind, *where in fields(data, start, end, repeated=1):
                    if one != 1 or its_kind != BYTES:
                        raise NonCanonicalError
                    _value(layout, data, *where)
            elif number == SESSION_LOG:
                statuses = (varint(data, *where)[0] for one, _, *where in fields(data, start, end) if one == 1)
                layout.session_start = START in statuses
        else:
            raise NonCanonicalError
    return layout


def _value(layout: Layout, data: Readable, start: int, end: int) -> None:
    tag, plugin, tensor, simple, kinds = b"", b"", None, None, 0
    for number, kind, field_start, field_end in fields(data, start, end):
        kinds += number in KINDS
        if number == TAG and kind == BYTES:
            tag = bytes(data[field_start:field_end])
            layout.tags.append(slice(field_start, field_end))
        elif number == SIMPLE_VALUE and kind == FIXED32:
            simple = field_start
        elif number == TENSOR and kind == BYTES:
            tensor = (field_start, field_end)
        elif number == METADATA and kind == BYTES:
            plugin = plugin_name(data, field_start, field_end)
        elif kind != BYTES:
            raise NonCanonicalError
    if kinds > 1:
        raise NonCanonicalError
    if simple is not None:
        layout.slots.append(Slot(TagName(tag, plugin_unknown=False, single=True), simple, "<f4"))
    elif tensor is not None:
        _tensor(layout, data, tensor, tag, plugin)


def plugin_name(data: Readable, start: int, end: int) -> bytes:
    """Return the plugin name in a value's metadata, or nothing."""
    name = b""
    for number, kind, field_start, field_end in fields(data, start, end):
        if number == 1 and kind == BYTES:
            for inner, inner_kind, name_start, name_end in fields(data, field_start, field_end):
                if inner == 1 and inner_kind == BYTES:
                    name = bytes(data[name_start:name_end])
    return name


def _tensor(layout: Layout, data: Readable, span: tuple[int, int], tag: bytes, plugin: bytes) -> None:
    if plugin not in {b"", SCALARS, TEXT}:
        layout.other_plugin_tags.append(tag)
        return
    parts = {number: (kind, start, end) for number, kind, start, end in fields(data, *span)}
    values = [number for number in parts if number > CONTENT]
    if len(values) > 1 or any(parts[number][0] != kind for number, kind in TENSOR_KINDS.items() if number in parts):
        raise NonCanonicalError
    dtype = varint(data, *parts[DTYPE][1:])[0] if DTYPE in parts else 0
    is_one = SHAPE not in parts or _elements(data, *parts[SHAPE][1:]) == 1
    name = TagName(tag, plugin == b"")
    if plugin != SCALARS and dtype == STRING and values == [STRING_VAL] and parts[STRING_VAL][0] == BYTES:
        layout.texts.append((name, slice(*parts[STRING_VAL][1:])))
    elif plugin != b"" or is_one:
        if plugin == TEXT or dtype == STRING or not is_one or len(values) + (CONTENT in parts) != 1:
            raise NonCanonicalError
        (number,) = values or (CONTENT,)
        form = FORMATS.get(dtype) if number == CONTENT else LISTED.get((dtype, number))
        _, start, end = parts[number]
        if form is None or end - start != SIZES[form]:
            raise NonCanonicalError
        layout.slots.append(Slot(name._replace(single=dtype == FLOAT), start, form))


def _elements(data: Readable, start: int, end: int) -> int:
    elements = 1
    for number, kind, dim_start, dim_end in fields(data, start, end, repeated=DIM):
        if number != DIM or kind != BYTES:
            raise NonCanonicalError
        size = 0
        for inner, inner_kind, size_start, size_end in fields(data, dim_start, dim_end):
            if inner == 1 and inner_kind == VARINT:
                size, _ = varint(data, size_start, size_end)
        elements *= size
    return elements
