"""Hostile goodput logs."""

from __future__ import annotations

import gzip
import json
import resource
from pathlib import Path
from typing import Any

import pytest

from ml_metrics.measure.goodput import measure, workers
from ml_metrics.measure.goodput.log import FollowedLog
from unit.measure.goodput.measuring import all_time, measured
from unit.measure.goodput.traces import custom, entry, job_end, job_start, restore, save, steps

PLAIN = [*job_start(0), *steps(0, 10, 0), *job_end(110)]


def text(entries: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(one) + "\n" for one in entries)


@pytest.mark.parametrize("name", [5, ["a"], {"a": 1}, 1.5, True, "\ud800", ""])
def test_any_value_may_be_a_job_name(tmp_path: Path, name: Any) -> None:
    (tmp_path / "goodput.jsonl").write_text(text([{**one, "job_name": name} for one in PLAIN]))
    found = measure(str(tmp_path))
    assert (found.job_name, found.goodput_percent) == (str(name), 100)


@pytest.mark.parametrize("time", [1e308, -1e308, 1.7e12, 1e300, -1e300])
def test_an_invalid_time_affects_only_its_entry(tmp_path: Path, time: float) -> None:
    (tmp_path / "goodput.jsonl").write_text(text([*PLAIN[:5], *steps(4, 4, time), *job_start(time), *PLAIN[5:]]))
    found = measure(str(tmp_path))
    assert (found.goodput_percent, found.total_seconds, found.disruptions) == (100, 110, 0)
    assert found.warnings[0].startswith("2 entries cannot be used")
    assert "is not a time in seconds" in found.warnings[0]


def test_times_before_1970_are_valid() -> None:
    found = measured([*job_start(-500), *steps(0, 10, -500), *job_end(-390)])
    assert (found.goodput_percent, found.total_seconds) == (100, 110)


@pytest.mark.parametrize("number", [2**61, 2**62 - 1, -(2**62) + 1, -5])
def test_steps_may_be_huge_or_negative(number: int) -> None:
    found = measured([*PLAIN[:5], {"job_name": "job", "step_count": number, "step_start_time": 41.0}, *PLAIN[5:]])
    assert all_time(found) == pytest.approx(found.total_seconds) == pytest.approx(110)
    assert found.productive_seconds >= 0


def test_of_duplicate_keys_the_last_counts(tmp_path: Path) -> None:
    twice = '{"job_name": "other", "step_count": 99, "job_name": "job", "step_count": 3, "step_start_time": 30.0}\n'
    (tmp_path / "goodput.jsonl").write_text(text(PLAIN[:4]) + twice + text(PLAIN[5:]))
    assert (measure(str(tmp_path)).goodput_percent, measure(str(tmp_path)).warnings) == (100, ())


def test_a_compressed_log_is_read(tmp_path: Path) -> None:
    (tmp_path / "goodput.jsonl.gz").write_bytes(gzip.compress(text(PLAIN).encode()))
    assert (measure(str(tmp_path)).files, measure(str(tmp_path)).goodput_percent) == (1, 100)
    assert len(FollowedLog(str(tmp_path)).read()) == len(PLAIN)


def test_a_truncated_compressed_log_is_read_up_to_the_damage(tmp_path: Path) -> None:
    whole = [*job_start(0), *steps(0, 20_000, 0)]
    (tmp_path / "goodput.jsonl").write_bytes(gzip.compress(text(whole).encode())[:-5000])
    found = measure(str(tmp_path))
    assert found.last_step is not None
    assert 10_000 < found.last_step < 20_000
    assert "is damaged; only the part before the damage was read" in found.warnings[0]


def test_a_line_that_never_ends_costs_no_memory_and_no_other_line(tmp_path: Path) -> None:
    path = tmp_path / "goodput.jsonl"
    with path.open("wb") as file:
        file.write(text(PLAIN[:5]).encode())
        file.seek(200 << 20, 1)
        file.write(b"\n" + text(PLAIN[5:]).encode())
    followed = FollowedLog(str(tmp_path))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found, entries = measure(str(tmp_path)), followed.read()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 80 << 10
    assert (found.goodput_percent, len(entries)) == (100, len(PLAIN))
    assert found.warnings == entries.warnings
    assert "a line of more than 1,048,576 bytes" in found.warnings[0]
    with path.open("a") as file:
        file.write(text(steps(11, 12, 120)))
    assert len(followed.read()) == len(PLAIN) + 2


def test_a_line_that_is_being_written_is_read_when_it_is_complete(tmp_path: Path) -> None:
    line = text(steps(11, 11, 120))
    (tmp_path / "goodput.jsonl").write_text(text(PLAIN) + line[:20])
    followed = FollowedLog(str(tmp_path))
    assert len(followed.read()) == len(PLAIN)
    with (tmp_path / "goodput.jsonl").open("a") as file:
        file.write(line[20:])
    assert len(followed.read()) == len(PLAIN) + 1


def test_a_thousand_logs_of_different_jobs_are_one_report(tmp_path: Path) -> None:
    for number in range(1000):
        folder = tmp_path / f"run{number:04}"
        folder.mkdir()
        (folder / "goodput.jsonl").write_text(text([{**one, "job_name": f"job{number}"} for one in PLAIN]))
    found = measure(str(tmp_path))
    assert (found.job_name, found.goodput_percent, len(found.warnings)) == ("job0", 100, 2)
    assert "1000 folders" in found.warnings[0]
    assert "12987 entries are of 999 other jobs ('job1', 'job2', 'job3', ...)" in found.warnings[1]
    assert measure(str(tmp_path), job_name="job7").job_name == "job7"


@pytest.mark.parametrize(
    "odd",
    [
        save(2, 12.0, -50),
        save(3, 1e300, 1e300),
        save(3, -1e5, 5),
        restore(1, 5, 1e9),
        save(2, 12.0, 1e9),
        custom("x", 30, 20),
        custom("x", 1, 1e6),
        custom("", 31, 32),
        [entry("elastic_slice_counts_timestamp", 5, active_slices=-3, total_slices=0, available_slices="x")],
        [entry("elastic_slice_counts_timestamp", 5, active_slices=9, total_slices=0, available_slices=2)],
        [{"job_name": "job", "step_count": {"a": 1}, "step_start_time": [1]}],
        [{"job_name": "job", "step_count": True, "step_start_time": 5.0}],
        [{}],
    ],
)
def test_time_adds_up_whatever_an_entry_contains(odd: list[dict[str, Any]]) -> None:
    found = measured([*PLAIN[:4], *odd, *PLAIN[4:]])
    assert all_time(found) == pytest.approx(found.total_seconds)
    assert min(found.productive_seconds, *found.badput_seconds.values()) >= 0


def test_gaps_in_a_log_are_warnings(tmp_path: Path) -> None:
    (tmp_path / "goodput.jsonl").write_text(text([*job_start(0), *job_start(5), *steps(0, 5, 10)]))
    again, endless = measure(str(tmp_path)).warnings
    assert again == "the job was started again 1 times without a step in between"
    assert endless.startswith("the job recorded no end: it is taken to have run until its last entry")
    assert "until its workload ended" in measure(str(tmp_path), until=100.0).warnings[-1]


def test_very_many_damaged_files_give_few_warnings(tmp_path: Path) -> None:
    for number in range(300):
        (tmp_path / f"goodput.{number}.jsonl").write_text('{"job_name"')
    assert len(measure(str(tmp_path)).warnings) <= 203


def test_a_log_of_very_many_hosts_is_not_compared_pair_by_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = 0

    def count(*_: object) -> bool:
        nonlocal compared
        compared += 1
        return False

    monkeypatch.setattr(workers, "_continues", count)
    monkeypatch.setattr(workers, "MAX_COMPARED", 1000)
    found = measured([{**one, "host": f"host-{number}"} for number in range(200) for one in PLAIN])
    assert found.goodput_percent == 100
    assert 900 < compared <= 1000
