from __future__ import annotations

import json
import math
import random
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ml_metrics.measure.goodput import measure
from ml_metrics.measure.goodput.log import Entries, Kind, read_log
from ml_metrics.store import storage
from ml_metrics_telemetry import GoodputRecorder
from unit.measure.goodput.measuring import close
from unit.measure.goodput.random_jobs import orderly_jobs
from unit.measure.goodput.traces import JOB, custom, in_time, job_end, job_start, save, span, steps

if TYPE_CHECKING:
    from pathlib import Path

PLAIN = [*job_start(0), *steps(0, 10, 0), *job_end(110)]


def written(folder: Path, entries: list[dict[str, Any]], name: str = "goodput.jsonl", end: str = "\n") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("\n".join(json.dumps(entry) for entry in entries) + end)
    return folder


def test_a_folder_without_a_log_has_a_report_with_a_warning(tmp_path: Path) -> None:
    found = measure(str(tmp_path))
    assert not found.found
    assert found.metrics() == ()
    assert found.document()["goodput_percent"] is None
    assert found.document()["warnings"] == ["there is no goodput log"]


@pytest.mark.parametrize("content", ["", "\n\n", "nonsense\n", '{"job_name": "job"}\n', '{"job_name": "job", "job_st'])
def test_a_log_without_usable_entries_has_a_report_with_a_warning(tmp_path: Path, content: str) -> None:
    (tmp_path / "goodput.jsonl").write_text(content)
    found = measure(str(tmp_path))
    assert not found.found
    assert found.warnings[-1] == "the goodput log has no usable entries"


def test_parts_in_a_bucket_are_read_in_order(tmp_path: Path) -> None:
    written(tmp_path, PLAIN[:4], "goodput.20260101T000000-host-1.00000.jsonl")
    written(tmp_path, PLAIN[4:], "goodput.20260101T000000-host-1.00001.jsonl")
    written(tmp_path, PLAIN, "telemetry.jsonl")
    found = measure(f"file://{tmp_path}")
    assert (found.files, found.productive_seconds, found.warnings) == (2, 110, ())


def test_an_incomplete_last_line_is_a_warning(tmp_path: Path) -> None:
    written(tmp_path, PLAIN, end='\n{"job_name": "job", "step_cou')
    found = measure(str(tmp_path))
    assert found.productive_seconds == 110
    assert "ends with an incomplete line" in found.warnings[0]


def test_a_last_line_without_a_line_end_counts(tmp_path: Path) -> None:
    written(tmp_path, PLAIN, end="")
    found = measure(str(tmp_path))
    assert (found.ended, found.warnings) == (True, ())


@pytest.mark.parametrize(
    "line",
    [
        "{torn", "[1, 2]", "null", '"text"', "\x00\x00", '{"job_name": "job", "step_count": 3}',
        '{"job_name": "job", "step_count": "many", "step_start_time": 5}',
        '{"job_name": "job", "step_count": 1.5, "step_start_time": 5}',
        '{"job_name": "job", "step_count": -3, "step_start_time": 100.0}',
        '{"job_name": "job", "step_count": 1, "step_start_time": NaN}',
        '{"job_name": "job", "step_count": 1, "step_start_time": 1e999}',
        '{"job_name": "job", "step_count": 99999999999999999999, "step_start_time": 5}',
        '{"job_name": "job", "job_start_time": true}',
        '{"job_name": "job", "event_type": "save"}',
        '{"job_name": "job", "event_type": "save", "step": 1, "directory": 7}',
        '{"job_name": "job", "something_new": 5}',
        '{"a":' * 2000 + "1" + "}" * 2000,
    ],
)  # fmt: skip
def test_an_invalid_line_affects_no_other_line(tmp_path: Path, line: str) -> None:
    written(tmp_path, PLAIN[:5])
    with (tmp_path / "goodput.jsonl").open("a") as file:
        file.write(line + "\n" + "\n".join(json.dumps(entry) for entry in PLAIN[5:]) + "\n")
    found = measure(str(tmp_path))
    assert (found.productive_seconds, found.total_seconds) == (110, 110)
    assert len(found.warnings) == 1
    assert "left out" in found.warnings[0]


def test_entries_of_another_job_are_left_out(tmp_path: Path) -> None:
    other = [{**entry, "job_name": "2026-01-01"} for entry in [*job_start(-500), *steps(0, 3, 0)]]
    written(tmp_path, [*PLAIN, *other])
    found = measure(str(tmp_path))
    assert (found.job_name, found.total_seconds) == (JOB, 110)
    assert found.warnings == ("5 entries are of another job, '2026-01-01', and were left out",)
    assert measure(str(tmp_path), job_name="2026-01-01").last_step == 3


def test_names_that_look_like_dates_stay_names(tmp_path: Path) -> None:
    events = custom("2026-01-01", 12, 17)
    written(tmp_path, [*PLAIN[:3], *events, *PLAIN[3:]])
    assert measure(str(tmp_path)).custom_badput_seconds == {"2026-01-01": 5}


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(orderly_jobs(), st.booleans())
def test_a_file_and_memory_give_the_same_columns(
    tmp_path_factory: pytest.TempPathFactory, entries: list[dict[str, Any]], damaged: bool
) -> None:
    folder = written(tmp_path_factory.mktemp("log"), entries, end="\nx\n" if damaged else "\n")
    read = read_log(storage.list_files(str(folder)))
    expected = Entries.of(entries)
    assert read.kind.tolist() == expected.kind.tolist()
    assert [repr(time) for time in read.time.tolist()] == [repr(time) for time in expected.time.tolist()]
    assert read.checkpoints == expected.checkpoints
    steps_of = [entries.number[entries.where(Kind.STEP)].tolist() for entries in (read, expected)]
    assert steps_of[0] == steps_of[1]
    names = [
        [one.names[index] for index in one.number[one.where(Kind.CUSTOM_START, Kind.CUSTOM_END)]]
        for one in (read, expected)
    ]
    assert names[0] == names[1]


def starts_without_steps(entries: list[dict[str, Any]]) -> int:
    """Return how many starts of the job are followed by another one, or the end, before any step."""
    kinds = [
        kind for entry in entries for kind in ("job_start_time", "step_start_time", "job_end_time") if kind in entry
    ]
    return sum(
        (kind, after) in {("job_start_time", "job_start_time"), ("job_start_time", "job_end_time")}
        for kind, after in zip(kinds, [*kinds[1:], "job_end_time"], strict=True)
    )


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(orderly_jobs(), st.randoms(use_true_random=False))
def test_entries_may_be_in_any_order(
    tmp_path_factory: pytest.TempPathFactory, entries: list[dict[str, Any]], chance: random.Random
) -> None:
    times = [next((value for key, value in entry.items() if "time" in key), None) for entry in entries]
    if len(set(times)) < len(times) or any("event_type" in entry for entry in entries):
        return  # equal times leave their order open, and checkpoints have none of their own
    expected = measure(str(written(tmp_path_factory.mktemp("sorted"), entries)))
    moved = list(entries)
    # a job start in another place could equally be a clock that was set back
    one = chance.choice([index for index, entry in enumerate(moved) if "job_start_time" not in entry])
    moved.insert(chance.randrange(len(moved)), moved.pop(one))
    if starts_without_steps(moved) > starts_without_steps(entries):
        return  # so could the only step of a start
    found = measure(str(written(tmp_path_factory.mktemp("moved"), moved)))
    assert found.found == expected.found
    at = moved.index(entries[one])
    if any("job_start_time" in entry for entry in entries[min(one, at) : max(one, at) + 1]) and any(
        "the clock went back" in warning for warning in found.warnings
    ):
        return  # so could any step beyond a start, and the report says what it is taken for
    assert close(found.productive_seconds, expected.productive_seconds)
    assert found.badput_seconds == pytest.approx(expected.badput_seconds)


@pytest.mark.parametrize("place", [5, 8, 12])
def test_an_entry_in_another_place_is_no_second_worker_of_a_job_that_restarts_often(tmp_path: Path, place: int) -> None:
    restarts = [*job_start(16), *steps(1, 1, 17), *job_start(22), *steps(1, 3, 23), *job_start(48), *steps(2, 3, 49)]
    entries = [*job_start(0), *steps(0, 1, 1), *restarts]
    moved = [*entries[:1], *entries[2:place], entries[1], *entries[place:]]
    expected, found = (measure(str(written(tmp_path / name, log))) for name, log in (("a", entries), ("b", moved)))
    assert found.badput_seconds == expected.badput_seconds
    assert found.warnings == ("1 entries were out of order; they were sorted by time", *expected.warnings)


def test_a_clock_that_is_set_back_loses_only_the_time_it_jumped(tmp_path: Path) -> None:
    written(tmp_path, [*job_start(1000), *steps(0, 5, 1000), *steps(6, 10, 500), *job_end(550)])
    found = measure(str(tmp_path))
    assert (found.disruptions, found.total_seconds) == (0, 100)
    assert found.productive_seconds == pytest.approx(90 + 80 / 9)  # the first of the others is the one of no length
    assert "the clock went back 1 times, by 550 s" in found.warnings[0]


def test_a_job_that_goes_on_where_the_clock_is_behind_is_read_in_the_order_of_its_log(tmp_path: Path) -> None:
    on_another_host = [*job_start(1000), *steps(18, 40, 1000), *job_end(1230)]
    found = measure(str(written(tmp_path, [*job_start(5000), *steps(0, 20, 5000), *on_another_host])))
    assert (found.disruptions, found.last_step, found.ended) == (1, 40, True)
    assert found.goodput_percent is not None
    assert found.goodput_percent > 90
    assert "the clock went back 1 times" in found.warnings[0]


def test_entries_delivered_twice_count_once(tmp_path: Path) -> None:
    twice = [copy for entry in in_time([*PLAIN, *span("data_loading", 25, 28)]) for copy in (entry, dict(entry))]
    found = measure(str(written(tmp_path, twice)))
    assert (found.disruptions, found.productive_seconds, found.total_seconds) == (0, 110, 110)
    assert math.isclose(found.badput_seconds["data_loading_async"], 3)


def test_a_log_without_a_job_start_counts_from_its_first_step(tmp_path: Path) -> None:
    found = measure(str(written(tmp_path, [*steps(5, 10, 50), *job_start(200), *steps(8, 10, 210), *job_end(240)])))
    assert (found.total_seconds, found.disruptions) == (190, 1)
    assert "the beginning of the log is missing" in found.warnings[0]


def test_unpaired_starts_and_ends_are_a_warning(tmp_path: Path) -> None:
    lonely = [*span("tpu_init", 1, 2)[:1], *span("training_prep", 3, 4)[1:], *custom("eval", 5, 6)[:1]]
    found = measure(str(written(tmp_path, in_time([*PLAIN, *lonely]))))
    assert found.productive_seconds == 110
    assert found.warnings == ("3 starts or ends of events are unpaired, and were left out",)


def test_saves_without_a_start_count_from_when_they_were_logged(tmp_path: Path) -> None:
    entries = [*PLAIN[:4], *save(2, None, 4.0), *PLAIN[4:]]
    found = measure(str(written(tmp_path, entries)))
    assert (found.productive_seconds, found.badput_seconds["unproductive_checkpoint_save_time"]) == (106, 4)


@pytest.mark.parametrize("late", [0.25, 4.0, 15.0, -15.0, 95.0])
def test_two_recording_workers_are_one_job_by_one_clock(tmp_path: Path, late: float) -> None:
    recorders = [GoodputRecorder(JOB, "log", True, folder=tmp_path) for _ in range(2)]
    for number, recorder in enumerate(recorders):
        ahead = 1000 + number * late
        recorder.record_job_start_time(datetime.fromtimestamp(ahead, UTC))
        recorder.flush()
        for step in range(10):
            recorder.record_step_start_time(step, datetime.fromtimestamp(ahead + 1 + 10 * step, UTC))
    for number, recorder in enumerate(recorders):
        recorder.record_job_end_time(datetime.fromtimestamp(1101 + number * late, UTC))
    found = measure(str(tmp_path))
    assert (found.files, found.disruptions, found.last_step) == (2, 0, 9)
    assert (found.total_seconds, found.productive_seconds) == (101, 100)
    assert "2 workers recorded the job" in found.clock
    assert bool(found.warnings) == (abs(late) >= 1)
    if found.warnings:
        assert f" is {abs(late):g} s " in found.warnings[0]
