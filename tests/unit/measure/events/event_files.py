"""Event files for tests, written byte by byte."""

import math
import struct
from pathlib import Path

import google_crc32c
from tensorboard.compat.proto.event_pb2 import Event, SessionLog

from ml_metrics.measure.events import Events, read_events
from ml_metrics.store.storage import list_files

NAME = "events.out.tfevents.1790000000.host.1.0"


def record(payload: bytes) -> bytes:
    length = struct.pack("<Q", len(payload))
    return length + masked(length) + payload + masked(payload)


def masked(data: bytes) -> bytes:
    crc = google_crc32c.value(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def varint(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def field(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def event(step: int, *values: bytes, wall_time: float = 1.79e9) -> bytes:
    stepped = b"\x10" + varint(step & 0xFFFFFFFFFFFFFFFF) if step else b""
    summary = b"".join(field(1, value) for value in values)
    return b"\x09" + struct.pack("<d", wall_time) + stepped + field(5, summary)


def simple(tag: str, value: float) -> bytes:
    return field(1, tag.encode()) + b"\x15" + struct.pack("<f", value)


def tensor(tag: str, content: bytes, plugin: str = "scalars") -> bytes:
    metadata = field(9, field(1, field(1, plugin.encode()))) if plugin else b""
    return field(1, tag.encode()) + field(8, content) + metadata


def content(dtype: int, data: bytes, shape: bytes = field(2, b"")) -> bytes:
    return b"\x08" + varint(dtype) + shape + field(4, data)


def image(tag: str, size: int) -> bytes:
    return field(1, tag.encode()) + field(4, b"\x08\x01\x10\x01\x18\x03" + field(4, b"p" * size))


def session_start(step: int, wall_time: float = 1.79e9) -> bytes:
    return Event(wall_time=wall_time, step=step, session_log=SessionLog(status=SessionLog.START)).SerializeToString()


def version() -> bytes:
    return Event(wall_time=1.79e9, file_version="brain.Event:2").SerializeToString()


def write(folder: Path, *payloads: bytes, name: str = NAME, tail: bytes = b"") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(map(record, payloads)) + tail)
    return path


def read(folder: Path, **options: int) -> Events:
    return read_events(list_files(str(folder)), **options)


def point(step: int, wall_time: float, value: float) -> tuple[int, float, float | str]:
    """A point. NaN is replaced by text, so that it equals itself."""
    return step, wall_time, "nan" if math.isnan(value) else value


def points(events: Events) -> dict[tuple[str, str], list[tuple[int, float, float | str]]]:
    """All points, by run and tag."""
    return {
        (one.run, one.tag): [
            point(*row) for row in zip(one.step.tolist(), one.wall_time.tolist(), one.value.tolist(), strict=True)
        ]
        for one in events.series
    }


def steps_and_values(events: Events, tag: str, run: str = ".") -> list[tuple[int, float]]:
    return [(step, value) for step, _, value in points(events)[run, tag]]
