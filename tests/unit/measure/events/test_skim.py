"""Skimming: what is read does not depend on whether the bytes of images are read, whatever the file holds."""

import io
import random
from pathlib import Path

import pytest

from ml_metrics.measure.events import blocks, read_events
from ml_metrics.store.storage import list_files
from unit.measure.events.event_files import (
    content,
    event,
    field,
    image,
    points,
    read,
    session_start,
    simple,
    steps_and_values,
    tensor,
    version,
    write,
)  # fmt: skip

BLOCK_SIZE = 64 << 10


def text(tag: str, size: int) -> bytes:
    return tensor(tag, b"\x08\x07" + field(8, b"x" * size), plugin="text")


def mixed(chance: random.Random) -> list[bytes]:
    """Mostly images, of both styles, with scalars between them, and sometimes a large record to read."""
    payloads = [version()]
    for step in range(chance.randrange(20, 200)):
        payloads += [event(step, simple("loss", step))] * chance.choice([0, 1, 1, 5, 60])
        kind = chance.random()
        size = chance.choice([100, 4050, 4080, 5000, 9000, 30_000])
        if kind < 0.8:
            payloads.append(event(step, image("i", size)))
        elif kind < 0.9:
            payloads.append(event(step, tensor("new style", content(7, b"p" * size), plugin="images")))
        elif kind < 0.94:
            payloads.append(event(step, image("i", size), simple("beside", step)))
        elif kind < 0.96:
            payloads.append(event(step, text("note", size)))
        elif kind < 0.98:
            payloads.append(session_start(step))
        else:
            payloads.append(event(step, image("i", chance.choice([70_000, 200_000]))))
    return payloads


@pytest.mark.parametrize("seed", range(40))
def test_a_skimmed_file_is_read_like_any_other(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)
    path = write(tmp_path, *mixed(chance))
    data = bytearray(path.read_bytes())
    for _ in range(seed % 3):
        place = chance.randrange(len(data))
        if chance.random() < 0.5:
            data[place] ^= 1 << chance.randrange(8)
        else:
            del data[place:]
    path.write_bytes(data)
    write(tmp_path, event(1, simple("loss", 1)), name="events.out.tfevents.2790000000.another.file")
    results = []
    for skims in (True, False):
        monkeypatch.setattr(blocks.BlockReader, "_may_skim", lambda _reader, _stream, skims=skims: skims)
        events = read(tmp_path, block_size=BLOCK_SIZE, supersede=seed % 2)
        results.append((points(events), events.texts, events.warnings))
    assert results[0] == results[1]


def test_most_bytes_of_images_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, *(event(step, image("i", 50_000), wall_time=step) for step in range(400)))
    with path.open("ab") as file:
        file.write(write(tmp_path / "other", event(1, simple("t", 2))).read_bytes())
    (tmp_path / "other" / path.name).unlink()
    walked: list[int] = []
    skimmed = blocks.BlockReader._skim

    def counted(
        self: blocks.BlockReader, file: blocks.EventFile, stream: io.BufferedIOBase, begin: int, position: int
    ) -> tuple[int, int]:
        end, shift = skimmed(self, file, stream, begin, position)
        walked.append(end + shift - position)
        return end, shift

    monkeypatch.setattr(blocks.BlockReader, "_skim", counted)
    reported: list[int] = []
    events = read_events(list_files(str(tmp_path)), block_size=1 << 20, progress=reported.append)
    assert steps_and_values(events, "t") == [(1, 2.0)]
    assert sum(walked) > 0.9 * path.stat().st_size
    assert sum(reported) >= path.stat().st_size


def test_an_image_that_is_cut_off(tmp_path: Path) -> None:
    path = write(tmp_path, *(event(step, image("i", 20_000)) for step in range(100)))
    path.write_bytes(path.read_bytes()[:-1])
    (warning,) = read(tmp_path, block_size=BLOCK_SIZE).warnings
    assert "cut off" in warning


def test_scalars_after_images_are_read_in_blocks_again(tmp_path: Path) -> None:
    images = [event(step, image("i", 20_000)) for step in range(30)]
    scalars = [event(step, simple("t", step)) for step in range(20_000)]
    write(tmp_path, *images, *scalars, *images, event(5, simple("t", 5)))
    expected = [*((step, float(step)) for step in range(20_000)), (5, 5.0)]
    assert steps_and_values(read(tmp_path, block_size=BLOCK_SIZE), "t") == expected
