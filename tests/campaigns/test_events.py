"""Fuzzing: no bytes make the reader crash or hang, or return columns of different lengths."""

import os
import random
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unit.events.event_files import NAME, event, image, read, record, session_start, simple, tensor, version

SECONDS = float(os.environ.get("EVENT_FUZZ_SECONDS", "3"))
"""How long the campaign runs."""
PARTS = [
    record(version()), record(session_start(3)), record(b""), record(event(1, image("i", 5000))),
    bytes(16), b"\xff" * 12,
    *(record(event(step, simple("loss", step), simple("acc", -step))) for step in range(5)),
    *(record(event(step, tensor("t", b"\x08\x01\x12\x00\x22\x04abcd"))) for step in range(5)),
]  # fmt: skip
payloads = st.binary(max_size=80) | st.sampled_from([simple("a", 1), tensor("b", b"\x08\x02")])
records = st.one_of(
    st.binary(max_size=60),
    payloads.map(record),
    payloads.map(lambda value: record(event(1, value))),
    st.sampled_from(PARTS),
    st.sampled_from(PARTS).map(lambda part: part * 120),
)
files = st.lists(records, max_size=12).map(b"".join)


def read_without_crash(data: bytes, **options: int) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        Path(scratch, NAME).write_bytes(data)
        events = read(Path(scratch), **options)
        for one in events.series:
            assert len(one.step) == len(one.wall_time) == len(one.value) > 0


@settings(max_examples=300, deadline=None)
@given(files, st.booleans(), st.sampled_from([4096, 1 << 23]))
def test_any_bytes(data: bytes, verify: bool, block_size: int) -> None:
    read_without_crash(data, verify=verify, block_size=block_size)


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=200))
def test_any_payload_with_a_valid_checksum(payload: bytes) -> None:
    read_without_crash(record(payload))
    read_without_crash(record(payload) * 200)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from([simple("loss", 1), tensor("t", b"\x08\x01\x12\x00\x22\x04abcd")]), st.data())
def test_a_changed_payload_with_a_valid_checksum(value: bytes, data: st.DataObject) -> None:
    payload = bytearray(event(300, value))
    for _ in range(data.draw(st.integers(1, 4))):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    read_without_crash(record(event(1, value)) * 150 + record(bytes(payload)) * 150)


@pytest.mark.campaign
def test_a_long_run_of_damaged_files() -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        data = bytearray(b"".join(chance.choices(PARTS, k=chance.randrange(1, 400))))
        for _ in range(chance.randrange(4)):
            place = chance.randrange(len(data))
            data[place : place + chance.randrange(30)] = chance.randbytes(chance.randrange(30))
        read_without_crash(bytes(data), verify=chance.randrange(2), block_size=chance.choice([4096, 10_000, 1 << 23]))
