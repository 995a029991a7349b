"""Reading through a buffer of fixed size: the result does not depend on the size of files, records or buffer."""

import random
import tracemalloc
from pathlib import Path

import pytest

from ml_metrics.measure.events import blocks, read_events
from ml_metrics.measure.events.reader import Text
from ml_metrics.store import storage
from unit.measure.events.event_files import (
    NAME,
    event,
    field,
    image,
    points,
    read,
    record,
    simple,
    steps_and_values,
    tensor,
    version,
    write,
)


@pytest.mark.parametrize("block_size", [4096, 5000, 20_000, 1 << 20])
def test_the_block_size_does_not_change_the_result(tmp_path: Path, block_size: int) -> None:
    chance = random.Random(block_size)
    for run in ("a", "a/b", "c"):
        payloads = [version()]
        for step in range(600):
            payloads.append(event(step, simple("loss", step), wall_time=step))
            payloads.append(event(step, tensor("lr", b"\x08\x01" + field(5, b"\0\0\0\x40")), wall_time=step))
            if chance.random() < 0.2:
                payloads.append(event(step, image("i", chance.choice([10, 3000, 4090, 5000, 30_000]))))
            if chance.random() < 0.02:
                payloads.append(event(step, image("j", chance.choice([10, 9000])), simple("beside", step)))
        write(tmp_path / run, *payloads)
    small, whole = read(tmp_path, block_size=block_size), read(tmp_path)
    assert points(small) == points(whole)
    assert small.warnings == whole.warnings == []
    assert len(whole.series) == 9


@pytest.mark.parametrize("verify", [False, True])
def test_a_record_larger_than_the_buffer(tmp_path: Path, verify: bool) -> None:
    payloads = [
        event(1, simple("t", 1)),
        event(2, image("i", 50_000)),
        event(3, image("i", 50_000), simple("t", 3)),
        event(4, tensor("note/text", b"\x08\x07" + field(8, b"x" * 30_000), plugin="text")),
        event(5, simple("t", 5)),
    ]
    path = write(tmp_path, *payloads)
    events = read(tmp_path, block_size=8192, verify=verify)
    assert steps_and_values(events, "t") == [(1, 1.0), (3, 3.0), (5, 5.0)]
    assert events.texts == [Text(".", "note/text", "x" * 30_000)]
    data = bytearray(path.read_bytes())
    data[40_000] ^= 1
    path.write_bytes(data)
    assert len(read(tmp_path, block_size=8192, verify=verify).series[0]) == (1 if verify else 3)


@pytest.mark.parametrize("verify", [False, True])
def test_a_record_of_any_size_is_skipped_and_one_to_read_has_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verify: bool
) -> None:
    monkeypatch.setattr(blocks, "LARGEST_RECORD", 60_000)
    graph = event(2)[:11] + field(4, b"g" * 90_000)
    both = event(3, image("i", 50_000), simple("t", 3))
    too_large = event(4, image("i", 70_000), simple("t", 4))
    path = write(tmp_path, event(1, simple("t", 1)), graph, both, too_large, event(5, simple("t", 5)))
    events = read(tmp_path, block_size=8192, verify=verify)
    assert steps_and_values(events, "t") == [(1, 1.0), (3, 3.0)]
    assert "bytes is too large" in events.warnings[0]
    data = bytearray(path.read_bytes())
    data[data.index(b"gg") + 100] ^= 1
    path.write_bytes(data)
    assert len(read(tmp_path, block_size=8192, verify=verify).series[0]) == (1 if verify else 2)


def test_records_around_the_size_of_the_buffer(tmp_path: Path) -> None:
    for size in (*range(8192 - 60, 8192 + 20), 2 * 8192):
        write(tmp_path, version(), *(event(2, simple(tag, 2)) for tag in ("before", "t" * size, "after")))
        events = read(tmp_path, block_size=8192)
        assert (sorted(len(one.tag) for one in events.series), events.warnings) == ([5, 6, size], [])


def test_an_oversized_record_that_is_truncated(tmp_path: Path) -> None:
    path = write(tmp_path, event(1, simple("t", 1)), event(2, image("i", 50_000)))
    path.write_bytes(path.read_bytes()[:-1])
    events = read(tmp_path, block_size=8192)
    assert steps_and_values(events, "t") == [(1, 1.0)]
    assert "cut off" in events.warnings[0]


def test_memory_usage_does_not_grow_with_the_file(tmp_path: Path) -> None:
    write(tmp_path, *(event(step, image("i", 100_000), wall_time=step) for step in range(400)))
    tracemalloc.start()
    try:
        read(tmp_path, block_size=1 << 20)
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


def test_progress_is_called_for_every_byte(tmp_path: Path) -> None:
    path = write(tmp_path, *(event(step, image("i", 20_000)) for step in range(20)))
    reported: list[int] = []
    read_events(storage.list_files(str(tmp_path)), progress=reported.append, block_size=8192)
    assert sum(reported) >= path.stat().st_size


def test_buckets_are_read_like_folders(tmp_path: Path) -> None:
    import fsspec

    path = write(tmp_path, *(event(step, simple("t", step)) for step in range(1000)))
    memory = fsspec.filesystem("memory")
    memory.pipe_file(f"/bucket/run/train/{NAME}", path.read_bytes())
    try:
        events = read_events(storage.list_files("memory://bucket/run"))
    finally:
        memory.rm("/bucket", recursive=True)
    assert steps_and_values(events, "t", "train") == [(step, float(step)) for step in range(1000)]


def test_file_addresses(tmp_path: Path) -> None:
    write(tmp_path / "a run", event(1, simple("t", 1)))
    events = read_events(storage.list_files(f"file://{tmp_path}"))
    assert steps_and_values(events, "t", "a run") == [(1, 1.0)]


def test_the_last_text_of_each_tag(tmp_path: Path) -> None:
    def text(content: str, plugin: str = "text") -> bytes:
        return tensor("config/text_summary", b"\x08\x07" + field(2, b"") + field(8, content.encode()), plugin=plugin)

    write(tmp_path, event(0, text("first")), event(1, text("sécond", plugin=""), wall_time=1.8e9))
    write(tmp_path / "b", event(0, text("no text", plugin="images")), event(1, text("bare", plugin="")))
    assert read(tmp_path).texts == [Text(".", "config/text_summary", "sécond")]


@pytest.mark.parametrize("count", [3, 100])
def test_of_the_texts_of_a_tag_the_last_one_by_time_counts(tmp_path: Path, count: int) -> None:
    chance = random.Random(count)
    for run in ("a", "b"):
        times = [float(chance.randrange(count // 2 + 1)) for _ in range(count)]
        texts = [
            event(at, tensor("note", b"\x08\x07" + field(8, b"%04d" % at), plugin="text"), wall_time=time)
            for at, time in enumerate(times)
        ]
        write(tmp_path / run, *texts)
        last = max(range(count), key=lambda at: (times[at], at))
        assert read(tmp_path / run).texts == [Text(".", "note", f"{last:04}")]


def test_records_inside_a_record_are_not_read(tmp_path: Path) -> None:
    inside = b"".join(record(event(step, simple("inside", step))) for step in range(40))
    text = event(0, tensor("note", b"\x08\x07" + field(8, inside), plugin="text"))
    scalars = [event(step, simple("t", step)) for step in range(50)]
    picture = event(0, field(1, b"i") + field(4, b"\x08\x01\x10\x01\x18\x03" + field(4, 10 * inside)))
    write(tmp_path, *scalars, text, *scalars, picture, *scalars)
    assert {one.tag: len(one) for one in read(tmp_path).series} == {"t": 150}
