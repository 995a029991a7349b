"""Files written by TensorFlow, Keras, Flax, CLU, PyTorch and many others are read as TensorFlow and TensorBoard do.

`real_writers/` contains the files, the points that TensorFlow read from them, and the programs that created both. The
frameworks themselves are too heavy to install for every test run.
"""

import json
import subprocess
import sys
from itertools import starmap
from pathlib import Path

from unit.measure.events.cold_reader import read_cold
from unit.measure.events.event_files import point, points, read
from unit.measure.events.tensorboard_reader import of_tensorboard

REAL = Path(__file__).parent / "real_writers"
OTHERS = REAL / "by_others"
WRITERS = sorted(folder.name for folder in OTHERS.iterdir())


def test_every_folder_of_other_writers_is_read_as_tensorboard_reads_it() -> None:
    """By a process that has read nothing else, in each folder."""
    for writer, contents in zip(WRITERS, read_cold([OTHERS / writer for writer in WRITERS]), strict=True):
        expected = of_tensorboard(OTHERS / writer)
        found = {
            key: [point(step, wall_time, float.fromhex(value)) for step, wall_time, value in points]
            for key, points in contents.points.items()
        }
        assert found == expected, writer
        assert contents.warnings == [], writer
    assert len(WRITERS) == 16


def test_every_point_is_read_as_tensorflow_reads_it() -> None:
    series = [json.loads(line) for line in (REAL / "points.jsonl").read_text().splitlines()]
    expected = {(one["run"], one["tag"]): [*starmap(point, one["points"])] for one in series}
    events = read(REAL)
    assert {key: read for key, read in points(events).items() if not key[0].startswith(OTHERS.name)} == expected
    assert events.warnings == []
    assert {run.partition("/")[0] for run, _ in expected} == {"by_tensorflow", "by_torch"}


def test_common_writers_need_no_protobuf() -> None:
    """Importing it takes as long as reading a small run."""
    program = (
        "import sys\n"
        "from ml_metrics.measure.events import read_events; from ml_metrics.store.storage import list_files\n"
        "assert read_events(list_files(sys.argv[1])).series; assert 'google.protobuf' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program, str(REAL)], check=True)


def test_texts_are_read_and_other_data_is_skipped() -> None:
    assert {(text.run, text.tag, text.text) for text in read(REAL).texts if OTHERS.name not in text.run} == {
        ("by_tensorflow/clu", "note", "at the end"),
        ("by_tensorflow/clu_default", "note", "at the end"),
        ("by_tensorflow/tf2", "note", "at the end"),
        ("by_torch", "note/text_summary", "at the end"),
    }
