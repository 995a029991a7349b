"""The wire format of protocol buffers, as far as event files need it.

Only what every writer produces is read here: each field once and in ascending order. Whatever else the format allows
raises `Odd`, and is left to the protobuf library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, overload

if TYPE_CHECKING:
    from collections.abc import Iterator

CONTINUES = 0x80
"""The bit of a byte that says that the integer goes on."""
BITS, LONGEST_VARINT = 64, 10
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


class Odd(Exception):  # noqa: N818  (it is no error: it says who reads the record)
    """This record is not written in the plain way."""


class Readable(Protocol):
    """Bytes in memory, or a window on a file."""

    @overload
    def __getitem__(self, where: int) -> int: ...
    @overload
    def __getitem__(self, where: slice) -> bytes | memoryview: ...


def varint(data: Readable, position: int, end: int) -> tuple[int, int]:
    """A variable-length integer and where it ends."""
    if position < end and (value := data[position]) < CONTINUES:
        return value, position + 1
    value = shift = 0
    for place in range(position, min(end, position + LONGEST_VARINT)):
        byte = data[place]
        value |= (byte & 0x7F) << shift
        if byte < CONTINUES:
            break
        shift += 7
    else:
        raise Odd
    if value >> BITS:
        raise Odd
    return value, place + 1


def signed(value: int) -> int:
    """A 64-bit integer, of which the format only knows the bits."""
    return value - (1 << 64) if value >> 63 else value


def fields(data: Readable, start: int, end: int, repeated: int = 0) -> Iterator[tuple[int, int, int, int]]:
    """Every field of a message as (number, wire type, start, end) of its value, without the length before it.

    Raises `Odd` where a number comes again or goes back, but for the `repeated` one.
    """
    last, position = 0, start
    while position < end:
        key, position = varint(data, position, end)
        number, kind = key >> 3, key & 7
        if number < last or (number == last and number != repeated) or number == 0:
            raise Odd
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
            raise Odd
        if position > end:
            raise Odd
        yield number, kind, begin, position
