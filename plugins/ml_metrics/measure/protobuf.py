"""The wire format of protocol buffers: the fields of one message."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, overload

if TYPE_CHECKING:
    from collections.abc import Iterator


CONTINUATION_BIT = 0x80
"""The bit of a byte that marks that the integer continues."""
BITS, MAX_VARINT_BYTES = 64, 10
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


class NonCanonicalError(ValueError):
    """The message's encoding is valid at best, but not the usual one."""


class Readable(Protocol):
    """Bytes in memory, or a window on a file."""

    @overload
    def __getitem__(self, where: int) -> int: ...
    @overload
    def __getitem__(self, where: slice) -> bytes | memoryview: ...


def varint(data: Readable, position: int, end: int) -> tuple[int, int]:
    """A variable-length integer and its end."""
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
        raise NonCanonicalError("a number is cut off or too long")
    if value >> BITS:
        raise NonCanonicalError("a number is cut off or too long")
    return value, index + 1


def signed(value: int) -> int:
    """A 64-bit integer as a signed one. The wire format stores only its bits."""
    return value - (1 << 64) if value >> 63 else value


def fields(
    data: Readable, start: int, end: int, repeated: int = 0, *, ordered: bool = True
) -> Iterator[tuple[int, int, int, int]]:
    """Yield each field of a message as (number, wire type, start, end) of its value, without its length prefix.

    Raises `NonCanonicalError` if `ordered` field numbers repeat or descend, except for the `repeated` one.
    """
    last, position = 0, start
    while position < end:
        key, position = varint(data, position, end)
        number, kind = key >> 3, key & 7
        if number == 0 or (ordered and (number < last or (number == last and number != repeated))):
            raise NonCanonicalError("fields are not in order")
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
            raise NonCanonicalError(f"wire type {kind}")
        if position > end:
            raise NonCanonicalError("a field is cut off")
        yield number, kind, begin, position


def fields_of(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """In any order; a value of fixed size as its bytes. Raises ValueError if the message is not whole."""
    for number, kind, start, end in fields(message, 0, len(message), ordered=False):
        yield number, varint(message, start, end)[0] if kind == VARINT else message[start:end]
