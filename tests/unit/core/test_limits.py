"""What one run may have, and what is kept when it has more."""

from __future__ import annotations

import gzip
import json
import re
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ml_metrics import ConfigError
from ml_metrics.config.collection import MetricCollectionConfig
from ml_metrics.core.limits import Limits, few
from ml_metrics.core.settings import Settings
from ml_metrics.measure import Collected, collect_run
from ml_metrics.measure.goodput import measure
from ml_metrics.store.run_folder import RunFolder
from unit.measure.collect.run_folders import values, write
from warm_python import WarmPython, warm_python

if TYPE_CHECKING:
    from collections.abc import Iterator

DOCS = Path(__file__).parents[3] / "docs"
MEMORY = 96 << 20
"""Address space that a reader may add to that of the libraries."""
ONE_POOL = {"ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "1"}
"""No library reserves address space that it does not use."""
IMPORTS = """
import numpy, pyarrow.csv
from ml_metrics.measure import collect_run
from ml_metrics.config.collection import MetricCollectionConfig
from ml_metrics.measure.goodput import measure
from ml_metrics.store.run_folder import RunFolder
"""
READER = """
import sys
from ml_metrics.measure import collect_run
from ml_metrics.config.collection import MetricCollectionConfig
from ml_metrics.measure.goodput import measure
from ml_metrics.store.run_folder import RunFolder
folder = RunFolder(sys.argv[1])
found = collect_run(MetricCollectionConfig(), folder, None)
report = measure(folder.files())
print(len(found.metrics), len(found.warnings), len(report.warnings))
for warning in (*found.warnings, *report.warnings):
    assert "could not be read: MemoryError" not in warning, warning
"""


def limited(folder: Path, judged: frozenset[str] = frozenset(), **limits: int) -> Collected:
    config = MetricCollectionConfig.model_validate({"default_aggregation_strategies": ["final"]})
    return collect_run(config, RunFolder(str(folder)), None, limits=Limits(**limits), judged=judged.__contains__)


@pytest.fixture(scope="module")
def reader() -> Iterator[WarmPython]:
    """Reads everything in a process of its own each time, whose memory is limited and which may crash."""
    with warm_python(IMPORTS, READER, **ONE_POOL) as python:
        yield python


def test_the_defaults_are_those_of_the_settings() -> None:
    assert Limits.of(Settings()) == Limits()


def test_the_pages_state_the_limits_that_exist() -> None:
    """Each number of tags, metrics or points that a page names, and each size in words beside a setting."""
    units = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
    names, found = {one.name for one in fields(Limits)}, 0
    for page in DOCS.glob("*.md"):
        text = page.read_text(encoding="utf-8")
        for sentence in re.findall(r"[Aa] run (?:has|may have) at most ([^:.]*)", text):
            for number, what in re.findall(r"([\d,]+) (tags|metrics|points)\b", sentence):
                assert int(number.replace(",", "")) == getattr(Limits(), what), f"{page.name}: {number} {what}"
                found += 1
        for name, default, rest in re.findall(r"^- `max_(\w+)` \(`(\d+)`\):(.*)$", text, re.MULTILINE):
            if name not in names:
                continue
            sizes = [int(size) * units[unit] for size, unit in re.findall(r"(\d+) ([KMG]iB)", rest)]
            assert {int(default), *sizes} == {getattr(Limits(), name)}, f"{page.name}: max_{name}"
            found += 1
    assert found >= len(names)


@pytest.mark.parametrize("text", ["0", "-1", "many", "", "1.5"])
def test_a_limit_that_is_no_number_is_an_error_that_names_its_setting(text: str) -> None:
    with pytest.raises(ConfigError, match="max_points"):
        Limits.of(Settings(max_points=text))


def test_what_is_judged_is_kept_first(tmp_path: Path) -> None:
    write(tmp_path, **{f"a{number}": [1.0] for number in range(20)}, z=[2.0])
    found = limited(tmp_path, frozenset({"z_final"}), tags=5)
    assert set(values(found)) == {"a0_final", "a1_final", "a10_final", "a11_final", "z_final"}
    assert "16 tags were left out: a run may have 5 (max_tags)" in found.warnings
    found = limited(tmp_path, frozenset({"z_final"}), metrics=1)
    assert set(values(found)) == {"z_final"}


def test_what_is_judged_has_room_after_others_have_used_it(tmp_path: Path) -> None:
    lines = [{"step": 1, f"a{number}": 1} for number in range(100)] + [{"step": step, "z": 2} for step in range(9)]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = limited(tmp_path, frozenset({"z_final"}), tags=2, points=10)
    assert values(found)["z_final"] == 2
    left_out = "80 points of further series were left out"
    assert f"{left_out}: a run may have 10 series for each of 2 tags (max_tags)" in found.warnings


def test_bytes_and_time_end_the_reading_with_one_warning(tmp_path: Path) -> None:
    for number in range(9):
        (tmp_path / f"m{number}.jsonl").write_text('{"step": 1, "a": 1}\n' * 100)
    (warning,) = [one for one in limited(tmp_path, bytes_read=5_000).warnings if "max_" in one]
    assert warning.startswith("5,000 bytes of files were read")
    (tmp_path / "m.jsonl").write_bytes(gzip.compress(b'{"step": 1, "a": 1}\n' * 10_000))
    assert any("max_bytes_unpacked" in one for one in limited(tmp_path, bytes_unpacked=1_000).warnings)


def test_files_that_unpack_to_very_much_end_the_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many of them there are: the bound is one for the run."""
    monkeypatch.setattr("ml_metrics.core.limits.UNPACKED_FREELY", 1 << 20)
    for number in range(4):
        (tmp_path / f"m{number}.jsonl").write_bytes(gzip.compress(b'{"step":1,"a":1}\n' * 500_000))
    found = limited(tmp_path)
    (warning,) = [one for one in found.warnings if "max_" in one]
    assert "over 200 times as many, as much as a run may have (max_bytes_unpacked)" in warning
    assert found.metrics[0].points < 1_000_000


def test_files_of_metrics_are_unpacked_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ml_metrics.core.limits.UNPACKED_FREELY", 1_000)
    for number in range(4):
        lines = "".join(f'{{"step": {step}, "loss": {1 / (step + 1)}}}\n' for step in range(5_000))
        (tmp_path / f"m{number}.jsonl").write_bytes(gzip.compress(lines.encode()))
    found = limited(tmp_path)
    assert (found.metrics[0].points, [one for one in found.warnings if "max_" in one]) == (20_000, [])


def test_a_warning_tells_no_content_and_has_no_control_characters(tmp_path: Path) -> None:
    (tmp_path / "telemetry.a.jsonl").write_text('{"admin": "hunter2"}\nhunter2\n[["hunter2"]]\n')
    (tmp_path / "goodput.jsonl").write_text('"hunter2"\n{"job_name": "j", "step_start_time": "hunter2"}\n')
    warnings = [*limited(tmp_path).warnings, *measure(str(tmp_path)).warnings]
    assert len(warnings) >= 4
    assert not [one for one in warnings if "hunter2" in one]
    assert few(["\x1b[31m\u202e"]) == ["\\x1b[31m\\u202e"]
    assert len(few(str(number) for number in range(10_000))) == 201


REGULAR = {
    "goodput.jsonl": '{"job_name": "j", "step_start_time": 1.5, "step_count": 1, "o": VALUE}\n',
    "telemetry.jsonl": '{"timestamp": 1.5, "group": "g", "name": "n", "value": 2.5, "o": VALUE}\n',
    "metrics.jsonl": '{"step": 1, "loss": 2.5, "o": VALUE}\n',
    "results.jsonl": '{"metrics": {"a": 1.5, "o": VALUE}}\n',
}


@pytest.mark.parametrize("name", REGULAR)
@pytest.mark.parametrize("value", ["[" * 70 + "]" * 70, '{"a":' * 70 + "1" + "}" * 70, "[" * 70])
def test_a_line_that_is_nested_too_deep_is_left_out_with_one_warning(tmp_path: Path, name: str, value: str) -> None:
    lines = [REGULAR[name].replace("VALUE", content) for content in (*["1"] * 50, value, *["1"] * 50)]
    (tmp_path / name).write_text("".join(lines))
    everything = [*limited(tmp_path).warnings, *measure(str(tmp_path)).warnings]
    (warning,) = [one for one in everything if "or nested" in one]
    assert "line 51" in warning
    assert "[[" not in warning


@pytest.mark.parametrize("name", ["goodput.jsonl", "telemetry.jsonl", "metrics.jsonl", "perfzero_summary.json"])
@pytest.mark.parametrize(
    "content",
    [
        b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
        b"[" * 1_000_000 + b"]" * 1_000_000,
        b"".join(
            line.replace("VALUE", value).encode() * 20
            for line in REGULAR.values()
            for value in ("1", "[" * 100_000 + "]" * 100_000, '{"a":' * 100_000 + "1" + "}" * 100_000)
        ),
        b"[" + b"[]," * 3_000_000 + b"[]]",
        b"".join(b'{"step":1,"k%d":1}\n' % number for number in range(20_000)),
        gzip.compress(b'{"step": 1, "a": 1}\n' * 500_000, 1),
    ],
    ids=["objects", "lists", "after regular lines", "wide", "new names", "packed"],
)
def test_no_file_takes_the_memory_or_crashes_its_reader(
    tmp_path: Path, reader: WarmPython, name: str, content: bytes
) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / name).write_bytes(content)
    done = reader.run(run, folder=tmp_path, memory=MEMORY)
    assert done.returncode == 0, (done.returncode, done.output[-2000:])
