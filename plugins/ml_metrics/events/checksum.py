"""CRC-32C as event files store it, and the same for many records at once.

A record's checksum is masked, so that a checksum of data that holds checksums stays a good one.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import google_crc32c
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

POLYNOMIAL = 0x82F63B78
ROTATION = 0xA282EAD8


def checksum(data: bytes | NDArray[np.uint8]) -> int:
    """The masked CRC-32C of a payload."""
    return mask(google_crc32c.value(data))


def mask(crc: int) -> int:
    """The form in which a checksum stands in a file."""
    return ((crc >> 15 | crc << 17) + ROTATION) & 0xFFFFFFFF


@lru_cache(maxsize=1 << 16)
def length_checksum(length: int) -> int:
    """The masked CRC-32C of a record's length field."""
    return checksum(length.to_bytes(8, "little"))


def checksum_in_parts(parts: Iterable[bytes]) -> int:
    """The masked CRC-32C of a payload that is too large to hold."""
    crc = 0
    for part in parts:
        crc = google_crc32c.extend(crc, part)
    return mask(crc)


def mask_all(crc: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """`mask` for an array."""
    return (crc >> np.uint32(15) | crc << np.uint32(17)) + np.uint32(ROTATION)


@lru_cache(maxsize=1 << 13)
def byte_table(following: int) -> NDArray[np.uint32]:
    """What each value of a byte adds to the CRC of a payload in which so many bytes follow it.

    CRC-32C is linear: the CRC of a payload is that of the payload with some bytes zero, xor what those bytes add.
    """
    if following == 0:
        return _table_of_the_last_byte()
    shorter = byte_table(following - 1)
    table: NDArray[np.uint32] = (shorter >> np.uint32(8)) ^ _table_of_the_last_byte()[shorter & np.uint32(0xFF)]
    return table


@lru_cache(maxsize=1)
def _table_of_the_last_byte() -> NDArray[np.uint32]:
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & np.uint32(1), (table >> np.uint32(1)) ^ np.uint32(POLYNOMIAL), table >> np.uint32(1))
    return table
