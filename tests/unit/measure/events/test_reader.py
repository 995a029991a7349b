"""Random files of three writers are read completely, and exactly as TensorBoard's own reader without sampling."""

import logging
import struct
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.summary.writer.event_file_writer import EventFileWriter
from tensorboardX import SummaryWriter
from tensorboardX.summary import _clean_tag

from unit.measure.events.event_files import content, event, point, points, read, simple, tensor, write
from unit.measure.events.tensorboard_reader import of_tensorboard

logging.getLogger("tensorboardX").setLevel(logging.CRITICAL)  # it warns about every NaN

Written = list[tuple[str, int, float, float]]
"""Tag, step, wall time, value."""

float32 = st.floats(width=32)
tags = st.sampled_from(["loss", "eval/acc", "ütf/🚀", "a", "b"]) | st.text("abcdefg/_", min_size=1, max_size=40)
steps = st.integers(0, 300) | st.integers(0, 2**62)
times = st.floats(1.7e9, 1.8e9)
rows = st.lists(st.tuples(tags, steps, times, float32), max_size=60)
repeated = st.tuples(rows, st.integers(1, 40)).map(lambda drawn: drawn[0] * drawn[1])
"""Long enough for many records to be read in columns."""


def by_bytes(folder: Path, written: Written) -> None:
    forms = (
        simple,
        lambda tag, value: tensor(tag, content(1, struct.pack("<f", value))),
    )
    write(
        folder,
        *(event(step, forms[len(tag) % 2](tag, value), wall_time=wall_time) for tag, step, wall_time, value in written),
    )


def by_tensorboardx(folder: Path, written: Written) -> None:
    with SummaryWriter(str(folder)) as writer:
        for tag, step, wall_time, value in written:
            writer.add_scalar(tag, value, step, walltime=wall_time)


def by_tensorboard(folder: Path, written: Written) -> None:
    writer = EventFileWriter(str(folder))
    for tag, step, wall_time, value in written:
        one = Event(wall_time=wall_time, step=step)
        one.summary.value.add(tag=tag, simple_value=value)
        writer.add_event(one)
    writer.close()


WRITERS: dict[str, Callable[[Path, Written], None]] = {
    "bytes": by_bytes,
    "tensorboardX": by_tensorboardx,
    "tensorboard": by_tensorboard,
}


@pytest.mark.parametrize("writer", WRITERS)
@settings(max_examples=25, deadline=None)
@given(written=repeated)
def test_every_written_point_is_read(writer: str, written: Written) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        WRITERS[writer](Path(scratch), written)
        expected: dict[tuple[str, str], list[tuple[int, float, float | str]]] = {}
        for tag, step, wall_time, value in written:
            name = _clean_tag(tag) if writer == "tensorboardX" else tag  # it allows few characters in tags
            expected.setdefault((".", name), []).append(point(step, wall_time, value))
        events = read(Path(scratch))
        assert points(events) == expected
        assert events.warnings == []


@pytest.mark.parametrize("shape", ["one file", "many runs", "restarted", "images between"])
def test_larger_folders_equal_those_of_tensorboards_reader(tmp_path: Path, shape: str) -> None:
    chance = np.random.default_rng(4)
    with_images = shape == "images between"
    for number in range({"many runs": 3, "restarted": 2}.get(shape, 1)):
        folder = tmp_path / f"run{number}" if shape == "many runs" else tmp_path
        with SummaryWriter(str(folder), filename_suffix=f".{number}") as writer:
            for step in range(700):
                for tag in ("loss", "acc", "lr", "train/tokens_per_second"):
                    writer.add_scalar(tag, chance.normal(), step)
                if with_images and step % 10 == 0:
                    writer.add_image("image", chance.integers(0, 255, (3, 64, 64), np.uint8), step)
                    writer.add_histogram("weights", chance.normal(size=100), step)
                    writer.add_text("note", f"at {step}", step)
    assert points(read(tmp_path)) == of_tensorboard(tmp_path)
