"""The wire format of protocol buffers, as far as event files need it.

This module reads only the encoding that all common writers produce: each field once, in ascending order. Any other
valid encoding raises `NonCanonicalError`, and the record is decoded by the protobuf library instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, overload

if TYPE_CHECKING:
    from collections.abc import Iterator

CONTINUATION_BIT = 0x80
"""The bit of a byte that marks that the integer continues."""
BITS, MAX_VARINT_BYTES = 64, 10
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


class NonCanonicalError(Exception):
    """The record's encoding is valid at best, but not the usual one."""


class Readable(Protocol):
    """Bytes in memory, or a window on a file."""

    @overload
    def __getitem__(self, where: int) -> int: ...
    @overload
    def __getitem__(self, where: slice) -> bytes | memoryview: ...


def varint(data: Readable, position: int, end: int) -> tuple[int, int]:
    """Return a variable-length integer and its end."""
    if position < end and (value := data[position]) < CONTINUATION_BIT:
        return value, position + 1
    value = shift = 0
    for index in range(position, min(end, position + MAX_VARINT_BYTES)):
        byte = data[index]
        value |= (byte & 0x7F) << shift
        if byte < CONTINUATION_BIT:
            break
        shift += 7
    else:
        raise NonCanonicalError
    if value >> BITS:
        raise NonCanonicalError
    return value, index + 1


def signed(value: int) -> int:
    """Return a 64-bit integer as a signed one. The wire format stores only its bits."""
    return value - (1 << 64) if value >> 63 else value


def fields(data: Readable, start: int, end: int, repeated: int = 0) -> Iterator[tuple[int, int, int, int]]:
    """Yield each field of a message as (number, wire type, start, end) of its value, without its length prefix.

    Raises `NonCanonicalError` if field numbers repeat or descend, except for the `repeated` one.
    """
    last, position = 0, start
    while position < end:
        key, position = varint(data, position, end)
        number, kind = key >> 3, key & 7
        if number < last or (number == last and number != repeated) or number == 0:
            raise NonCanonicalError
        last = number
        begin = position
        if kind == BYTES:
            length, begin = varint(data, position, end)
            position = begin + length
        elif kind == VARINT:
            _, position = varint(data, position, end)
        elif kind == FIXED64:
            position += 8
        elif kind == FIXED32:
            position += 4
        else:
            raise NonCanonicalError
        if position > end:
            raise NonCanonicalError
        yield number, kind, begin, position
