"""The wire format of protocol buffers: the fields of one message."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, overload

if TYPE_CHECKING:
    from collections.abc import Iterator


VARINT, FIXED_64, BYTES, FIXED_32 = 0, 1, 2, 5
LONGEST_VARINT = 10
CONTINUES = 0x80
"""The bit of a byte after which a number goes on."""


def fields_of(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the number and the value of each field; a value of fixed size as its bytes.

    Raises:
        ValueError: The message is not whole.
    """
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        kind = tag & 7
        if kind == VARINT:
            number, at = _varint(message, at)
            yield tag >> 3, number
            continue
        if kind == BYTES:
            size, at = _varint(message, at)
        elif kind in (FIXED_64, FIXED_32):
            size = 8 if kind == FIXED_64 else 4
        else:
            raise ValueError(f"wire type {kind}")
        if at + size > len(message):
            raise ValueError("a field is cut off")
        yield tag >> 3, message[at : at + size]
        at += size


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(LONGEST_VARINT):
        if at >= len(message):
            raise ValueError("a number is cut off")
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << (7 * shift)
        if byte < CONTINUES:
            return value, at
    raise ValueError("a number is too long")


CONTINUATION_BIT = 0x80
"""The bit of a byte that marks that the integer continues."""
BITS, MAX_VARINT_BYTES = 64, 10
WIRE_VARINT, FIXED64, WIRE_BYTES, FIXED32 = 0, 1, 2, 5


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
        if kind == WIRE_BYTES:
            length, begin = varint(data, position, end)
            position = begin + length
        elif kind == WIRE_VARINT:
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
