"""The wire format of protocol buffers: the fields of one message."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
