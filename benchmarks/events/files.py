"""Creates event files like those of training programs, byte by byte, so that no writer has to be installed."""

from __future__ import annotations

import math
import random
import struct
from pathlib import Path
from typing import TYPE_CHECKING

import google_crc32c

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FIRST_SECOND = 1_790_000_000.0
TAGS = (
    "train/loss", "train/accuracy", "train/learning_rate", "train/grad_norm", "eval/loss", "eval/accuracy",
    "perf/step_seconds", "perf/examples_per_second", "perf/tokens_per_second_per_chip", "epoch",
)  # fmt: skip
IMAGE_BYTES = 50_000
RECORDED = Path(__file__).parents[2] / "tests" / "unit" / "measure" / "events" / "real_writers"
FEWEST = 5
OFTEN = (1, 1, 1, 1, 2, 5, 10, 50)
"""A record of a kind is written in every so many steps."""


def scalars_in_one_file(folder: Path, count: int, value: Callable[[str, float], bytes]) -> None:
    """Ten tags, one after the other at each step."""
    _write(folder / "run", (_event(i, i // len(TAGS), value(TAGS[i % len(TAGS)], math.sin(i))) for i in range(count)))


def runs(folder: Path, count: int, points: int) -> None:
    """Many runs, each like `scalars_in_one_file`, in the old style."""
    for number in range(count):
        scalars_in_one_file(folder / f"trial_{number:04}", points, simple_value)


def mostly_images(folder: Path, size: int, scalars: int) -> None:
    """Scalars between images, for a file of the given size."""
    images = size // IMAGE_BYTES
    pixels = bytes(range(256)) * (IMAGE_BYTES // 256 + 1)

    def events() -> Iterator[bytes]:
        written = 0
        for number in range(images):
            while written * images <= number * scalars:
                yield _event(written, written // len(TAGS), simple_value(TAGS[written % len(TAGS)], math.sin(written)))
                written += 1
            length = IMAGE_BYTES - 512 + number * 7919 % 1024
            yield _event(written, written // len(TAGS), _image(pixels[number % 256 :][:length]))
        for index in range(written, scalars):
            yield _event(index, index // len(TAGS), simple_value(TAGS[index % len(TAGS)], math.sin(index)))

    _write(folder / "run", events())


def recorded_writers(folder: Path, files: int, points: int) -> None:
    """A tree of several writers: the records of real files, repeated as by a training program, with rising steps.

    A kind of record is written every so many steps; what its program wrote rarely, every thousand.
    """
    chance = random.Random(7)
    sources = [kinds for path in sorted(RECORDED.rglob("*tfevents*")) if (kinds := _kinds(path.read_bytes()))]
    for number in range(files):
        kinds = [(tail, chance.choice(OFTEN) if often else 1000) for tail, often in sources[number % len(sources)]]
        _write(folder / f"run_{number:04}" / "train", _repeated(kinds, points, chance))


def _repeated(kinds: list[tuple[bytes, int]], points: int, chance: random.Random) -> Iterator[bytes]:
    written = step = 0
    while written < points:
        for tail, every in kinds:
            if step % every == 0:
                yield _head(written, step) + tail
                written += 1
        step += chance.choice((1, 1, 1, 2))


def _kinds(data: bytes) -> list[tuple[bytes, bool]]:
    """What follows the step in the records of a file, for each set of tags once, and whether it is written often.

    Nothing for a file in which nothing is written often.
    """
    from tensorboard.compat.proto.event_pb2 import Event

    position = 0
    kinds: dict[tuple[str, ...], list[bytes]] = {}
    while position < len(data):
        (length,) = struct.unpack_from("<Q", data, position)
        event = Event.FromString(data[position + 12 : position + 12 + length])
        position += 16 + length
        event.ClearField("wall_time")
        event.ClearField("step")
        if tags := tuple(value.tag for value in event.summary.value):
            kinds.setdefault(tags, []).append(event.SerializeToString())
    found = [(records[0], len(records) >= FEWEST) for records in kinds.values()]
    return found if any(often for _, often in found) else []


def simple_value(tag: str, value: float) -> bytes:
    """Return a scalar as written by tensorboardX and torch."""
    return _field(1, tag.encode()) + b"\x15" + struct.pack("<f", value)


def tensor_value(tag: str, value: float) -> bytes:
    """Return a scalar as written by TensorFlow 2."""
    tensor = b"\x08\x01" + _field(2, b"") + _field(4, struct.pack("<f", value))
    return _field(1, tag.encode()) + _field(8, tensor) + _field(9, _field(1, _field(1, b"scalars")))


def _image(pixels: bytes) -> bytes:
    return _field(1, b"eval/samples") + _field(4, b"\x08\x80\x01\x10\x80\x01\x18\x03" + _field(4, pixels))


def _event(number: int, step: int, value: bytes) -> bytes:
    return _head(number, step) + _field(5, _field(1, value))


def _head(number: int, step: int) -> bytes:
    wall_time = FIRST_SECOND + number * 0.0137
    return b"\x09" + struct.pack("<d", wall_time) + (b"\x10" + _varint(step) if step else b"")


def _write(folder: Path, events: Iterator[bytes]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    version = b"\x09" + struct.pack("<d", FIRST_SECOND) + _field(3, b"brain.Event:2")
    with (folder / f"events.out.tfevents.{int(FIRST_SECOND)}.host.1.0").open("wb") as file:
        file.write(_record(version))
        file.writelines(map(_record, events))


def _record(payload: bytes) -> bytes:
    length = struct.pack("<Q", len(payload))
    return length + _checksum(length) + payload + _checksum(payload)


def _checksum(data: bytes) -> bytes:
    crc = google_crc32c.value(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >> 7:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
