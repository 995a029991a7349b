"""Writes TensorBoard scalars without TensorBoard, in the part of its event-file format that scalars need.

A file is a sequence of records: length, checksum, data, checksum. The data is an `Event` in protocol buffers.
"""

from __future__ import annotations

import math
import os
import struct
import time
from functools import lru_cache

from ml_metrics_telemetry.destinations import BucketParts, LocalFile, is_remote, local_path, writer_name
from ml_metrics_telemetry.record_log import RecordLog

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_PREFIX = "events.out.tfevents"


def open_scalar_log(folder: str | os.PathLike[str]) -> RecordLog:
    """Return a log of scalars `(tag, value, step, wall time)`, stored as 32-bit floats. Each process has its own file.

    Args:
        folder: A path or any URL that fsspec understands.
    """
    where = os.fspath(folder)
    destination = BucketParts(where, _PREFIX, "", _head) if is_remote(where) else EventFile(where)
    return RecordLog(destination, lambda scalar: record(scalar_event(*scalar)))


class EventFile(LocalFile):
    """A new event file in a folder."""

    def __init__(self, folder: str) -> None:
        self._folder = local_path(folder)
        super().__init__(self._new_path(), head=_head)

    def after_fork(self) -> None:
        """Leave the file to the parent process and start another one."""
        super().after_fork()
        self.path = self._new_path()

    def _new_path(self) -> str:
        return os.path.join(self._folder, f"{_PREFIX}.{writer_name()}")


def _head() -> bytes:
    return record(version_event(time.time()))


def record(data: bytes) -> bytes:
    """Return a record of an event file."""
    length = struct.pack("<Q", len(data))
    return length + struct.pack("<I", masked_crc(length)) + data + struct.pack("<I", masked_crc(data))


def version_event(wall_time: float) -> bytes:
    """Return the first event of a file."""
    return _field(1, _FIXED64, struct.pack("<d", wall_time)) + _text(3, "brain.Event:2")


def scalar_event(tag: str, value: float, step: int, wall_time: float) -> bytes:
    """Return the event of one value: wall_time 1, step 2, summary 5 { value 1 { tag 1, simple_value 2 } }."""
    body = _text(1, tag) + _field(2, _FIXED32, struct.pack("<f", _as_float32(value)))
    return (
        _field(1, _FIXED64, struct.pack("<d", wall_time))
        + _field(2, _VARINT, _varint(step & 0xFFFFFFFFFFFFFFFF))
        + _message(5, _message(1, body))
    )


def _as_float32(value: float) -> float:
    """Return infinity for values that are too large for a 32-bit float."""
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
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


@lru_cache(maxsize=1)
def _crc_table() -> tuple[int, ...]:
    """Return the table of CRC-32C (Castagnoli), least significant bit first."""
    table = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return tuple(table)


def masked_crc(data: bytes) -> int:
    """Return the checksum of a record, masked because the CRC of data that contains CRCs is weak."""
    table, value = _crc_table(), 0xFFFFFFFF
    for byte in data:
        value = table[(value ^ byte) & 0xFF] ^ value >> 8
    value ^= 0xFFFFFFFF
    return ((value >> 15 | value << 17) + 0xA282EAD8) & 0xFFFFFFFF
