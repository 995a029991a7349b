"""Every reader of a workload's bytes, with memory and time held by the kernel: it says what is wrong, and ends well."""

from __future__ import annotations

import gzip
import json
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import strategies as st

from campaigns.hostile.attack import VARIANTS, WHOLE, Attack, sample
from campaigns.hostile.deeds import DOCUMENT_NAMES, DOCUMENTS, NAMES, Deed, do_all
from campaigns.hostile.drawing import drawn
from campaigns.hostile.held_child import held
from campaigns.hostile.readers import read_all, run_folder
from ml_metrics.store.documents import MAX_DOCUMENTS
from ml_metrics.store.storage import ListingLimits
from unit.measure.events.event_files import event, record, simple, tensor

Begin = Callable[[str], Attack]
pytestmark = [pytest.mark.filterwarnings("ignore::DeprecationWarning")]  # a fork of a process with threads
PLACES = (*NAMES, *(f"{DOCUMENTS}/{name}" for name in DOCUMENT_NAMES))

numbers = st.one_of(
    st.integers(-(10**400), 10**400), st.floats(), st.sampled_from([2**63, -(2**63), 2**64, 1e308, -0.0, 5e-324])
)
texts = st.one_of(
    st.text(max_size=40),
    st.sampled_from(
        ["\x1b]0;title\x07", "\ud800", "\u202e", "\x00", "=cmd|' /C calc'!A0", "<script>", "a\nb", "x" * 70_000]
    ),
)
values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(texts, inner, max_size=5),
    max_leaves=30,
)
KEYS = (
    "step", "_step", "time", "timestamp", "metrics", "dimensions", "loss", "name", "value", "benchmark_result",
    "process_info", "job_start_time", "step_start_time", "step_count", "job_name", "status", "attempts", "started_at",
    "ended_at", "test", "dag_id", "run_id", "deployment", "test_file", "params", "reasons", "troubles", "verdicts",
    "kind", "subject", "recipients", "outbox", "detail", "remaining", "tag", "strategy", "curves", "trial", "windows",
)  # fmt: skip
documents = st.dictionaries(st.sampled_from(KEYS) | texts, values, max_size=8)


def _text(value: object) -> bytes:
    return json.dumps(value).encode("utf-8", "surrogatepass")


json_lines = st.lists(st.one_of(documents.map(_text), st.binary(max_size=60)), max_size=30).map(b"\n".join)
tables = st.lists(st.lists(texts | numbers.map(str), max_size=8), max_size=20).map(
    lambda rows: "\n".join(",".join(row) for row in rows).encode("utf-8", "surrogatepass")
)
events = st.lists(
    st.one_of(
        st.binary(max_size=100),
        st.binary(max_size=100).map(record),
        st.tuples(st.integers(0, 2**40), st.text(max_size=30), st.floats(width=32)).map(
            lambda point: record(event(point[0], simple(point[1], point[2])))
        ),
        st.binary(max_size=60).map(lambda content: record(event(1, tensor("t", content)))),
        st.integers(0, 2**64 - 1).map(lambda length: struct.pack("<Q", length) + bytes(8)),
    ),
    max_size=20,
).map(b"".join)
zipped = st.one_of(json_lines, st.binary(max_size=200)).map(lambda data: gzip.compress(data, mtime=0)) | st.binary(
    max_size=60
).map(lambda data: b"\x1f\x8b\x08" + data)
contents = st.one_of(
    json_lines, documents.map(_text), values.map(_text), tables, events, zipped, st.binary(max_size=300)
)
written = st.builds(
    lambda at, data, times: {"do": "write", "at": at, "hex": (data * times).hex(), "instead": True},
    st.sampled_from(PLACES), contents, st.sampled_from([1, 1, 1, 50]),
)  # fmt: skip


def test_any_bytes_in_any_file(tmp_path: Path, attack: Begin) -> None:
    plans = drawn(st.lists(written, min_size=1, max_size=8), 2 * VARIANTS)
    with attack("S9 any bytes in any file, each reader, within 384 MiB") as tried:
        for number, plan in enumerate(plans):
            play(tried, tmp_path / str(number), plan, str(plan)[:600])


MIB = 1 << 20
BIG: dict[str, Deed] = {
    "nested lists": {"do": "nested", "shape": "json", "depth": 200_000},
    "nested objects": {"do": "nested", "shape": "objects", "depth": 200_000},
    "8 TiB of nothing": {"do": "sparse", "size": 8 << 40},
    "2 GiB of nothing": {"do": "sparse", "size": 2 << 30},
    "30 MB of empty lists": {"do": "repeat", "text": "[],", "times": 10_000_000},
    "lines of one letter": {"do": "repeat", "text": "a\n", "times": 10_000_000},
    "empty lines": {"do": "repeat", "text": "\n", "times": 20_000_000},
    "empty objects": {"do": "repeat", "text": "{}\n", "times": 5_000_000},
    "one line without an end": {"do": "repeat", "text": '{"a":1,', "times": 10_000_000},
    "a number of ten million digits": {"do": "repeat", "text": "9", "times": 10_000_000},
    "the same key again and again": {"do": "repeat", "text": '{"step":1,"loss":1,"loss":2}\n', "times": 400_000},
    "commas": {"do": "repeat", "text": ",", "times": 20_000_000},
    "quotes": {"do": "repeat", "text": '"', "times": 20_000_000},
    "a small file that unpacks to a gigabyte": {"do": "gzip", "text": "{}\n", "times": 350_000},
    "zeros that unpack to a gigabyte": {"do": "gzip", "text": "\x00", "times": 1_000_000},
    "a hundred thousand tags": {"do": "tags", "prefix": "t", "count": 100_000},
    "ten thousand long tags": {"do": "tags", "prefix": "t" * 3000, "count": 10_000},
}


@pytest.mark.parametrize("what", BIG)
def test_a_big_file_in_every_place(what: str, tmp_path: Path, attack: Begin) -> None:
    """Each file alone, under each name: no worker needs more than 384 MiB or 60 seconds for it."""
    places = sample(PLACES, 2, what)
    with attack(f"S9 {what}, in each place") as tried:
        for number, at in enumerate(places):
            play(tried, tmp_path / str(number), [{**BIG[what], "at": at, "instead": True}], f"{what} as {at}", 60)


def test_very_many_and_very_deep_files(tmp_path: Path, attack: Begin) -> None:
    """More files than are listed, of a run folder and of its documents."""
    very_many, many = (200_000, 50_000) if VARIANTS >= WHOLE else (105_000, 11_000)
    assert very_many > ListingLimits().files
    assert many > MAX_DOCUMENTS.files
    shapes: dict[str, list[Deed]] = {
        "empty files": [{"do": "files", "at": "sub/x", "count": very_many}],
        "streams": [{"do": "files", "at": "sub/telemetry.", "count": many}],
        "messages": [{"do": "files", "at": f"{DOCUMENTS}/messages/", "count": many}],
        "event files": [{"do": "files", "at": "events.out.tfevents.", "count": many}],
        "a folder 900 deep": [{"do": "deep", "at": "deep", "depth": 900}],
        "200 folders 100 deep": [{"do": "deep", "at": f"deep{n}", "depth": 100} for n in range(200)],
    }
    with attack("S9 very many files, very deep folders") as tried:
        for number, (what, deeds) in enumerate(shapes.items()):
            play(tried, tmp_path / str(number), deeds, what, 60)


def play(tried: Attack, root: Path, deeds: list[Deed], what: str, seconds: int = 20) -> None:
    """Write the files, and let every reader read them in a held process of its own."""
    folder = run_folder(root)
    do_all(Path(folder.path), deeds)
    ended = held(lambda: read_all(folder), seconds=seconds, wall_seconds=3.0 * seconds)
    tried.variant(what, held=ended.well, reached=ended.how)
    shutil.rmtree(root)
