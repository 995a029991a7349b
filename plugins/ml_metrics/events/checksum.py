"""CRC-32C as stored in event files, for single payloads and for many records at once.

Event files store checksums masked, because the CRC of data that contains CRCs is weak.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import google_crc32c
import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

HEADER = 12
"""Bytes before a payload: its length, and the checksum of the length."""
FOOTER = 4
"""Bytes after a payload: its checksum."""
FRAMING_SIZE = HEADER + FOOTER

POLYNOMIAL = 0x82F63B78
ROTATION = 0xA282EAD8


def checksum(data: bytes | NDArray[np.uint8]) -> int:
    """Return the masked CRC-32C of a payload."""
    return mask(google_crc32c.value(data))


def mask(crc: int) -> int:
    """Return a checksum in its stored form."""
    return ((crc >> 15 | crc << 17) + ROTATION) & 0xFFFFFFFF


@lru_cache(maxsize=1 << 16)
def length_checksum(length: int) -> int:
    """Return the masked CRC-32C of a record's length field."""
    return checksum(length.to_bytes(8, "little"))


def mask_all(crc: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Apply `mask` to an array."""
    return (crc >> np.uint32(15) | crc << np.uint32(17)) + np.uint32(ROTATION)


def byte_table(following: int) -> NDArray[np.uint32]:
    """Return what each value of a byte contributes to the CRC of a payload, given the number of bytes after it.

    CRC-32C is linear: the CRC of a payload is the CRC of the payload with some bytes zeroed, xor the contributions of
    those bytes.
    """
    for number in range(len(_byte_tables), following + 1):
        shorter = _byte_tables[number - 1]
        _byte_tables[number] = (shorter >> np.uint32(8)) ^ _byte_tables[0][shorter & np.uint32(0xFF)]
    return _byte_tables[following]


def _last_byte_table() -> NDArray[np.uint32]:
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & np.uint32(1), (table >> np.uint32(1)) ^ np.uint32(POLYNOMIAL), table >> np.uint32(1))
    return table


_byte_tables = {0: _last_byte_table()}
"""By the number of bytes that follow. Each table is derived from the one before it."""
