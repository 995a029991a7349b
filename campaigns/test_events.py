"""Fuzzing: whatever the bytes are, exactly the points that protobuf finds up to the first fault are read."""

import os
import random
import struct
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from unit.measure.events import odd_events
from unit.measure.events.event_files import (
    NAME,
    content,
    event,
    image,
    points,
    read,
    record,
    session_start,
    simple,
    tensor,
    version,
)  # fmt: skip
from unit.measure.events.reference import Contents, Point, read_bytes

SECONDS = float(os.environ.get("EVENT_FUZZ_SECONDS", "3"))
"""How long the campaign runs."""
PART = 1 if os.environ.get("CAMPAIGN") else 3
"""`make test` tries a third of the examples; CAMPAIGN=1 tries all."""
PARTS = [
    record(version()), record(session_start(3)), record(b""), record(event(1, image("i", 5000))),
    bytes(16), b"\xff" * 12,
    *(record(event(step, simple("loss", step), simple("acc", -step))) for step in range(5)),
    *(record(event(step, tensor("t", b"\x08\x01\x12\x00\x22\x04abcd"))) for step in range(5)),
]  # fmt: skip
HALF_WITHOUT_ELEMENTS = event(0, tensor("loss", b"\x08\x13j\x01\\\x12\x04\x12\x02\x08\x00"))
"""A tensor whose shape has no room for its element."""
REFERENCE_TO_FLOAT = event(1, tensor("loss", content(101, b"abcd")))
SIGNALLING = {1: b"\x00\x00\xa0\x7f", 2: bytes(6) + b"\xf4\x7f", 14: b"\xa0\x7f", 19: b"\x00\x7d"}
"""A NaN that makes a processor raise its flag for invalid numbers, by the type of a tensor with one element."""
SIGNALLING_NANS = [
    event(1, simple("loss", 0.0)).replace(bytes(4), SIGNALLING[1]),
    *(event(1, tensor("loss", content(kind, nan))) for kind, nan in SIGNALLING.items()),
]
payloads = st.binary(max_size=80) | st.sampled_from([simple("a", 1), tensor("b", b"\x08\x02")])
records = st.one_of(
    st.binary(max_size=60),
    payloads.map(record),
    payloads.map(lambda value: record(event(1, value))),
    st.sampled_from(PARTS),
    st.sampled_from(PARTS).map(lambda part: part * 120),
)
files = st.lists(records, max_size=12).map(b"".join)


def check(data: bytes, *, verify: bool = False, block_size: int = 1 << 23) -> None:
    """Assert that nothing is read that was not written, and that nothing before a fault is left out."""
    with tempfile.TemporaryDirectory() as scratch:
        Path(scratch, NAME).write_bytes(data)
        events = read(Path(scratch), verify=verify, block_size=block_size)
    for one in events.series:
        assert len(one.step) == len(one.wall_time) == len(one.value) > 0
    found = {tag: written for (_, tag), written in points(events).items()}
    expected = read_bytes(data, verify=verify)
    if expected.refused or expected.unverified:
        assert_is_part(found, expected)
    else:
        assert found == expected.points
        assert any(warning.startswith(NAME) for warning in events.warnings) == expected.stopped


def assert_is_part(found: dict[str, list[Point]], expected: Contents) -> None:
    """Assert that the points begin like the expected ones.

    A payload that protobuf refuses may end the file; if not, its numbers count, and so does what follows it. A large
    record that fails its checksum ends the file only if it seems to hold something to read.
    """
    refused = b"".join(expected.refused)
    for tag, written in found.items():
        ours = [one for one in written if not _is_in(one, refused)]
        theirs = [one for one in expected.points.get(tag, []) if not _is_in(one, refused)]
        assert ours == theirs[: len(ours)], tag


def _is_in(one: Point, payloads: bytes) -> bool:
    return struct.pack("<d", one[1]) in payloads


@settings(max_examples=300 // PART, deadline=None)
@given(files, st.booleans(), st.sampled_from([4096, 20_000, 1 << 23]))
def test_any_bytes(data: bytes, verify: bool, block_size: int) -> None:
    check(data, verify=verify, block_size=block_size)


@settings(max_examples=150 // PART, deadline=None)
@given(st.binary(max_size=200))
def test_any_payload_with_a_valid_checksum(payload: bytes) -> None:
    check(record(payload))
    check(record(payload) * 200)


@settings(max_examples=150 // PART, deadline=None)
@given(st.sampled_from([simple("loss", 1), tensor("t", b"\x08\x01\x12\x00\x22\x04abcd")]), st.data())
def test_a_changed_payload_with_a_valid_checksum(value: bytes, data: st.DataObject) -> None:
    payload = bytearray(event(300, value))
    for _ in range(data.draw(st.integers(1, 4))):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    check(record(event(1, value)) * 150 + record(bytes(payload)) * 150)


@settings(max_examples=400 // PART, deadline=None)
@example([(HALF_WITHOUT_ELEMENTS, 2)])
@example([(payload, times) for payload in (*SIGNALLING_NANS, REFERENCE_TO_FLOAT) for times in (1, 100)])
@given(st.lists(st.tuples(odd_events.events, st.sampled_from([1, 2, 100])), min_size=1, max_size=4))
def test_odd_events(chosen: list[tuple[bytes, int]]) -> None:
    check(b"".join(record(payload) * times for payload, times in chosen))


@pytest.mark.campaign
def test_a_long_run_of_damaged_files() -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    end, files = time.monotonic() + SECONDS, 0
    while time.monotonic() < end or not files:
        files += 1
        data = bytearray(b"".join(chance.choices(PARTS, k=chance.randrange(1, 400))))
        for _ in range(chance.randrange(4)):
            place = chance.randrange(len(data) + 1)  # at the end too, and damage may have left nothing
            data[place : place + chance.randrange(30)] = chance.randbytes(chance.randrange(30))
        check(bytes(data), verify=chance.randrange(2), block_size=chance.choice([4096, 10_000, 30_000, 1 << 23]))
