"""Writing TensorBoard scalars without TensorBoard: the part of its event-file format that a scalar needs.

A file is records of length, checksum, data, checksum; the data is an `Event` message in protocol buffers.
"""

from __future__ import annotations

import math
import os
import struct
import time
from pathlib import Path

from ml_metrics.telemetry.destinations import BucketParts, LocalFile, is_remote, writer_name
from ml_metrics.telemetry.record_log import RecordLog

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_PREFIX = "events.out.tfevents"


class ScalarWriter:
    """Appends scalars to event files in a folder, from a thread of its own; each process has its own file.

    Args:
        folder: A path, or an address that fsspec knows.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        where = os.fspath(folder)
        self._log = RecordLog(BucketParts(where, _PREFIX, "", _head) if is_remote(where) else EventFile(where), _render)

    def add_scalar(self, tag: str, value: float, step: int, wall_time: float | None = None) -> None:
        """Queue one value; it is stored as a 32-bit float."""
        self._log.put((tag, value, step, time.time() if wall_time is None else wall_time))

    def flush(self) -> None:
        """Wait until everything is written."""
        self._log.flush()

    def close(self) -> None:
        """Flush, and let go of the file."""
        self._log.close()


class EventFile(LocalFile):
    """A new event file in a folder."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder.removeprefix("file://"))
        super().__init__(self._folder / f"{_PREFIX}.{writer_name()}", head=_head)

    def after_fork(self) -> None:
        """Leave the file to the parent, and begin another."""
        super().after_fork()
        self.path = self._folder / f"{_PREFIX}.{writer_name()}"


def _head() -> bytes:
    return record(version_event(time.time()))


def _render(scalar: tuple[str, float, int, float]) -> bytes:
    return record(scalar_event(*scalar))


def record(data: bytes) -> bytes:
    """A record of an event file."""
    length = struct.pack("<Q", len(data))
    return length + struct.pack("<I", masked_crc(length)) + data + struct.pack("<I", masked_crc(data))


def version_event(wall_time: float) -> bytes:
    """The event that every file begins with."""
    return _field(1, _FIXED64, struct.pack("<d", wall_time)) + _text(3, "brain.Event:2")


def scalar_event(tag: str, value: float, step: int, wall_time: float) -> bytes:
    """The event of one value: wall_time 1, step 2, summary 5 { value 1 { tag 1, simple_value 2 } }."""
    body = _text(1, tag) + _field(2, _FIXED32, struct.pack("<f", _as_float32(value)))
    return (
        _field(1, _FIXED64, struct.pack("<d", wall_time))
        + _field(2, _VARINT, _varint(step & 0xFFFFFFFFFFFFFFFF))
        + _message(5, _message(1, body))
    )


def _as_float32(value: float) -> float:
    """What is too large for a 32-bit float is infinite in it, as everywhere else."""
    try:
        struct.pack("<f", value)
    except OverflowError:
        return math.copysign(math.inf, value)
    return value


def _field(number: int, kind: int, data: bytes) -> bytes:
    return _varint(number << 3 | kind) + data


def _message(number: int, data: bytes) -> bytes:
    return _field(number, _BYTES, _varint(len(data)) + data)


def _text(number: int, text: str) -> bytes:
    return _message(number, text.encode("utf-8", "backslashreplace"))


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:  # noqa: PLR2004  (seven bits to a byte)
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _crc_table() -> tuple[int, ...]:
    """CRC-32C, the Castagnoli polynomial, least significant bit first."""
    table = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return tuple(table)


_TABLE = _crc_table()


def masked_crc(data: bytes) -> int:
    """The checksum of a record, rotated and shifted so that a checksum of checksums stays one."""
    value = 0xFFFFFFFF
    for byte in data:
        value = _TABLE[(value ^ byte) & 0xFF] ^ value >> 8
    value ^= 0xFFFFFFFF
    return ((value >> 15 | value << 17) + 0xA282EAD8) & 0xFFFFFFFF
