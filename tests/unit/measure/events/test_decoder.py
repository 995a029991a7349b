"""Corrupt files: everything before the fault is read, nothing after it, and the fault is a warning."""

import os
import random
import struct
from pathlib import Path

import pytest

from ml_metrics.measure.events import read_events
from ml_metrics.store import storage
from unit.measure.events.event_files import (
    NAME,
    content,
    event,
    field,
    image,
    masked,
    read,
    record,
    simple,
    steps_and_values,
    tensor,
    version,
    write,
)  # fmt: skip

COUNTS = [3, 1000]
"""Few records are read one by one, many in columns."""
CUT = "the last record is cut off (its writer stopped, or is still writing)"


def good(count: int) -> list[bytes]:
    return [version(), *(event(step, simple("loss", step)) for step in range(count))]


def expected(count: int) -> list[tuple[int, float]]:
    return [(step, float(step)) for step in range(count)]


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("left", [1, 8, 11, 12, 13, 40, -1])
def test_a_truncated_last_record_is_a_warning(tmp_path: Path, count: int, left: int) -> None:
    path = write(tmp_path, *good(count))
    whole = path.stat().st_size
    path.write_bytes(path.read_bytes() + record(event(count, simple("loss", 1)))[:left])
    events = read(tmp_path)
    assert steps_and_values(events, "loss") == expected(count)
    assert events.warnings == [f"{NAME}: at byte {whole}: {CUT}"]


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("other", [image("picture", 60), tensor("loss", content(1, bytes(4)), "other")])
def test_small_records_without_numbers_are_verified_and_name_their_plugin(
    tmp_path: Path, count: int, other: bytes
) -> None:
    untyped = field(1, b"loss") + field(8, content(1, struct.pack("<f", 1.5)))
    written = [
        version(),
        *(event(step, value) for step in range(count) for value in (other, simple("good", step), untyped)),
    ]
    path = write(tmp_path, *written)
    events = read(tmp_path)
    assert steps_and_values(events, "good") == expected(count)
    assert ("loss" in {one.tag for one in events.series}) == (b"picture" in other)
    damaged = bytearray(path.read_bytes())
    at = damaged.rindex(other) + len(other) - 20
    damaged[at] ^= 1
    path.write_bytes(damaged)
    events = read(tmp_path)
    assert steps_and_values(events, "good") == expected(count - 1)
    assert ["fails its checksum" in warning for warning in events.warnings] == [True]


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("zeros", [4, 12, 4096])
def test_a_tail_of_zeros(tmp_path: Path, count: int, zeros: int) -> None:
    write(tmp_path, *good(count), tail=bytes(zeros))
    events = read(tmp_path)
    assert steps_and_values(events, "loss") == expected(count)
    assert len(events.warnings) == 1


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("offset", [0, 5, 8, 10, 12, 20, 21, 30, -20, -5, -4, -1])
def test_a_flipped_bit_in_the_middle_drops_the_rest_of_the_file_only(tmp_path: Path, count: int, offset: int) -> None:
    payloads = good(count)
    bad = len(payloads) // 2
    before = sum(len(record(payload)) for payload in payloads[:bad])
    data = bytearray(b"".join(map(record, payloads)))
    data[(before if offset >= 0 else before + len(record(payloads[bad]))) + offset] ^= 0x10
    (tmp_path / NAME).write_bytes(data)
    write(tmp_path, event(7, simple("other", 7)), name="events.out.tfevents.2")
    events = read(tmp_path)
    assert steps_and_values(events, "loss") == expected(bad - 1)
    assert steps_and_values(events, "other") == [(7, 7.0)]
    (warning,) = events.warnings
    assert warning.startswith(f"{NAME}: at byte {before}: ")


def test_every_flipped_bit_of_a_small_file_is_detected(tmp_path: Path) -> None:
    payloads = [version(), *(event(step, simple("loss", step)) for step in range(1, 4))]
    data = b"".join(map(record, payloads))
    ends = [sum(len(record(one)) for one in payloads[: index + 1]) for index in range(len(payloads))]
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        (tmp_path / str(bit)).mkdir()
        (tmp_path / str(bit) / NAME).write_bytes(flipped)
    events = read(tmp_path)
    read_points = {int(one.run): len(one) for one in events.series}
    for bit in range(8 * len(data)):
        assert read_points.get(bit, 0) == max(0, sum(end <= bit // 8 for end in ends) - 1), bit
    assert {warning.partition("/")[0] for warning in events.warnings} == set(map(str, range(8 * len(data))))
    assert len(events.warnings) == 8 * len(data)


def test_faults_in_many_files_of_one_block_are_all_reported(tmp_path: Path) -> None:
    for run in range(50):
        payloads = good(200)
        data = bytearray(b"".join(map(record, payloads)))
        cut = sum(len(record(payload)) for payload in payloads[: run + 2])
        data[cut + 25] ^= 1
        data[-30] ^= 1
        path = tmp_path / f"{run:02}" / NAME
        path.parent.mkdir()
        path.write_bytes(data)
    events = read(tmp_path)
    assert len(events.warnings) == 50
    for run in range(50):
        assert steps_and_values(events, "loss", f"{run:02}") == expected(run + 1)


@pytest.mark.parametrize("length", [2**60, 2**63, 2**64 - 1, 2**64 - 16, 10**9])
def test_a_record_length_beyond_the_end_of_the_file_is_a_truncated_record(tmp_path: Path, length: int) -> None:
    header = struct.pack("<Q", length)
    write(tmp_path, *good(3), tail=header + masked(header) + b"x" * 50)
    events = read(tmp_path, block_size=4096)
    assert steps_and_values(events, "loss") == expected(3)
    assert events.warnings[0].endswith(CUT)


def test_a_record_with_a_valid_checksum_that_is_not_an_event(tmp_path: Path) -> None:
    write(tmp_path, *good(3), b"\xff\xff\xff", event(9, simple("loss", 9)))
    events = read(tmp_path)
    assert steps_and_values(events, "loss") == expected(3)
    assert "a record is not an event" in events.warnings[0]


def test_an_empty_record_is_an_empty_event(tmp_path: Path) -> None:
    write(tmp_path, b"", *good(3), b"")
    events = read(tmp_path)
    assert (steps_and_values(events, "loss"), events.warnings) == (expected(3), [])


@pytest.mark.parametrize(
    "data",
    [b"hello, this is text\n" * 10, b"\x89PNG\r\n\x1a\n" + bytes(100), random.Random(7).randbytes(500)],
    ids=["text", "image", "noise"],
)
def test_a_file_that_is_not_an_event_file(tmp_path: Path, data: bytes) -> None:
    (tmp_path / NAME).write_bytes(data)
    events = read(tmp_path)
    assert (events.series, events.files) == ([], 1)
    assert events.warnings == [f"{NAME}: at byte 0: this is not an event file"]


def test_no_files_and_an_empty_file(tmp_path: Path) -> None:
    assert read(tmp_path).files == 0
    (tmp_path / NAME).touch()
    (tmp_path / "events.out.tfevents.1.profile-empty").write_bytes(b"junk")
    (tmp_path / "notes.txt").write_bytes(b"junk")
    events = read(tmp_path)
    assert (events.series, events.warnings, events.files) == ([], [], 1)


def test_a_named_pipe_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / NAME)
    assert read(tmp_path).series == []


def test_a_file_that_disappears_is_a_warning_and_the_others_are_read(tmp_path: Path) -> None:
    gone = write(tmp_path, *good(3), name="events.out.tfevents.1")
    write(tmp_path, *good(3), name="events.out.tfevents.2")
    files = storage.list_files(str(tmp_path))
    gone.unlink()
    events = read_events(files)
    assert steps_and_values(events, "loss") == expected(3)
    assert len(events.warnings) == 1
    assert str(gone) in events.warnings[0]


def test_a_file_that_grows_after_it_was_listed_is_read_to_its_end(tmp_path: Path) -> None:
    path = write(tmp_path, *good(3))
    files = storage.list_files(str(tmp_path))
    with path.open("ab") as file:
        file.write(record(event(3, simple("loss", 3))))
    assert steps_and_values(read_events(files), "loss") == expected(4)


@pytest.mark.parametrize("size", [3000, 10_000])
@pytest.mark.parametrize("plugin", ["image", "tensor"])
def test_verify_checks_records_that_are_skipped(tmp_path: Path, size: int, plugin: str) -> None:
    pixels = tensor("i", b"\x08\x07" + field(8, b"p" * size), plugin="images")
    large = image("i", size) if plugin == "image" else pixels
    path = write(tmp_path, event(1, simple("t", 1)), event(2, large), event(3, simple("t", 3)))
    data = bytearray(path.read_bytes())
    data[data.index(b"pppp") + size // 2] ^= 1
    path.write_bytes(data)
    cut, whole = [(1, 1.0)], [(1, 1.0), (3, 3.0)]
    assert steps_and_values(read(tmp_path, verify=True), "t") == cut
    assert steps_and_values(read(tmp_path), "t") == (cut if size < 4096 else whole)


def test_an_image_beside_a_scalar_in_one_event_is_verified(tmp_path: Path) -> None:
    path = write(tmp_path, event(1, image("i", 10_000), simple("t", 1)), event(2, simple("t", 2)))
    assert steps_and_values(read(tmp_path), "t") == [(1, 1.0), (2, 2.0)]
    data = bytearray(path.read_bytes())
    data[5000] ^= 1
    path.write_bytes(data)
    assert read(tmp_path).series == []
