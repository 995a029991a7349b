from __future__ import annotations

import json
import logging
import multiprocessing
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from ml_metrics_telemetry import GoodputRecorder
from ml_metrics_telemetry.destinations import RUN_DIR

if TYPE_CHECKING:
    from pathlib import Path

AT = datetime(2026, 1, 5, 8, tzinfo=UTC)


def lines(folder: Path, name: str = "goodput.jsonl") -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / name).read_text().splitlines()]


def without_writer(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The entries without the fields that name their writer, which each must have."""
    assert {(entry["host"], entry["pid"]) for entry in entries} == {(socket.gethostname(), os.getpid())}
    return [{name: value for name, value in entry.items() if name not in {"host", "pid"}} for entry in entries]


def test_entries_have_the_older_library_s_fields(tmp_path: Path) -> None:
    recorder = GoodputRecorder('a "job"', "log", True, folder=tmp_path)
    recorder.record_job_start_time(AT)
    recorder.record_step_start_time(3, AT)
    recorder.record_custom_badput_event_start_time(AT, "eval")
    recorder.record_elastic_slice_counts(1, 4, 2, AT)
    recorder.record_elastic_wait_end_time("scale_up", AT)
    recorder.flush()
    now, job = AT.timestamp(), 'a "job"'
    assert without_writer(lines(tmp_path)) == [
        {"job_name": job, "job_start_time": now},
        {"job_name": job, "step_count": 3, "step_start_time": now},
        {"job_name": job, "custom_badput_event_type": "eval", "custom_badput_event_start_time": now},
        {
            "job_name": job,
            "active_slices": 1,
            "total_slices": 4,
            "available_slices": 2,
            "elastic_slice_counts_timestamp": now,
        },
        {"job_name": job, "elastic_wait_event_type": "scale_up", "elastic_wait_end_time": now},
    ]


def test_a_recorder_that_is_not_enabled_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(RUN_DIR, str(tmp_path))
    recorder = GoodputRecorder("job", "log")
    recorder.record_step_start_time(1)
    recorder.record_job_end_time()
    assert list(tmp_path.iterdir()) == []


def test_a_recorder_without_a_folder_logs_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    recorder = GoodputRecorder("job", "log", True)
    recorder.record_step_start_time(1)
    recorder.flush()
    assert RUN_DIR in caplog.text


def test_the_default_folder_is_the_run_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(RUN_DIR, str(tmp_path / "made"))
    recorder = GoodputRecorder("job", "log", True)
    before = time.time()
    recorder.record_step_start_time(1)
    recorder.flush()
    assert before <= lines(tmp_path / "made")[0]["step_start_time"] <= time.time()


def test_the_end_of_a_failing_event_is_recorded(tmp_path: Path) -> None:
    recorder = GoodputRecorder("job", "log", True, folder=tmp_path)
    with pytest.raises(KeyError), recorder.record_event("job"), recorder.record_event("Eval"):
        raise KeyError
    with recorder.record_event("accelerator_init"), recorder.record_event("step", step=7):
        pass
    recorder.flush()
    entries = without_writer(lines(tmp_path))
    fields = [sorted(set(entry) - {"job_name", "custom_badput_event_type"}) for entry in entries]
    assert fields == [
        ["job_start_time"],
        ["custom_badput_event_start_time"],
        ["custom_badput_event_end_time"],
        ["tpu_init_start_time"],
        ["step_count", "step_start_time"],
        ["tpu_init_end_time"],
    ]


def test_the_recorder_never_raises(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("in the way")
    recorder = GoodputRecorder("job", "log", True, folder=tmp_path / "file" / "below")
    recorder.record_step_start_time("many")  # type: ignore[arg-type]  # what a wrong program may do
    recorder.record_job_start_time("now")  # type: ignore[arg-type]
    recorder.record_step_start_time(1)
    recorder.flush()
    assert "cannot be written now" in caplog.text


class Store:
    def __init__(self) -> None:
        self.entries: list[dict[str, Any]] = []

    def write_cloud_logging_entry(self, entry: dict[str, Any]) -> None:
        self.entries.append(entry)

    def flush(self) -> None:
        raise OSError("the network is down")


def test_entries_may_go_to_a_cloud_logger(caplog: pytest.LogCaptureFixture) -> None:
    store = Store()
    recorder = GoodputRecorder("job", "log", True, store)
    recorder.record_step_start_time(5, AT)
    recorder.flush()
    assert without_writer(store.entries) == [{"job_name": "job", "step_count": 5, "step_start_time": AT.timestamp()}]
    assert "the network is down" in caplog.text


def test_two_workers_write_to_separate_files(tmp_path: Path) -> None:
    recorders = [GoodputRecorder("job", "log", True, folder=tmp_path) for _ in range(2)]
    for recorder in recorders:
        recorder.record_step_start_time(1)
        recorder.flush()
    assert len(lines(tmp_path)) == 1
    (other,) = tmp_path.glob("goodput.2*.jsonl")
    assert len(lines(tmp_path, other.name)) == 1


def test_a_restart_appends_after_an_incomplete_line(tmp_path: Path) -> None:
    (tmp_path / "goodput.jsonl").write_text('{"job_name": "job", "step_co')
    recorder = GoodputRecorder("job", "log", True, folder=tmp_path)
    recorder.record_step_start_time(1)
    recorder.close()
    assert json.loads((tmp_path / "goodput.jsonl").read_text().splitlines()[1])["step_count"] == 1


def test_a_bucket_gets_numbered_parts() -> None:
    import fsspec

    recorder = GoodputRecorder("job", "log", True, folder="memory://bucket/run")
    for step in range(3):
        recorder.record_step_start_time(step)
        recorder.flush()
    (name,) = fsspec.filesystem("memory").glob("/bucket/run/goodput.*.jsonl")
    text = fsspec.filesystem("memory").cat_file(name).decode()
    assert [json.loads(line)["step_count"] for line in text.splitlines()] == [0, 1, 2]
    assert name.endswith(".00000.jsonl")


PROGRAM = """
import os, sys, time
from ml_metrics_telemetry import GoodputRecorder
recorder = GoodputRecorder("job", "log", True)
for step in range(1000):
    recorder.record_step_start_time(step)
print("recorded", flush=True)
time.sleep(float(sys.argv[1]))
os.kill(os.getpid(), {signal})
"""


def _killed(folder: Path | str, project: Path, pause: float, number: int) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PROGRAM.format(signal=number), str(pause)],
        env={**os.environ, RUN_DIR: str(folder), "PYTHONPATH": str(project / "plugins")},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def test_a_kill_loses_at_most_the_last_second(tmp_path: Path, project: Path) -> None:
    done = _killed(tmp_path, project, 1.0, signal.SIGKILL)
    assert done.returncode == -signal.SIGKILL
    assert len(lines(tmp_path)) == 1000


def test_a_kill_loses_a_few_seconds_in_a_bucket(tmp_path: Path, project: Path) -> None:
    done = _killed(f"local://{tmp_path}", project, 3.0, signal.SIGKILL)
    assert done.returncode == -signal.SIGKILL, done.stderr
    (part,) = tmp_path.glob("goodput.*.00000.jsonl")
    assert len(lines(tmp_path, part.name)) == 1000


def test_after_a_full_disk_no_entry_is_lost(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    recorder = GoodputRecorder("job", "log", True, folder=tmp_path)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
        for step in range(100):
            recorder.record_step_start_time(step)
        recorder.flush()
        assert (tmp_path / "goodput.jsonl").stat().st_size == 1000
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, ignored)
    recorder.flush()
    assert [entry["step_count"] for entry in lines(tmp_path)] == list(range(100))
    assert caplog.text.count("cannot be written now") == 1


def _child(recorder: GoodputRecorder) -> None:
    recorder.record_step_start_time(99)
    recorder.flush()


@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
def test_a_forked_worker_writes_to_its_own_file(tmp_path: Path) -> None:
    recorder = GoodputRecorder("job", "log", True, folder=tmp_path)
    recorder.record_step_start_time(1)
    recorder.flush()
    recorder.record_step_start_time(2)
    process = multiprocessing.get_context("fork").Process(target=_child, args=(recorder,))
    process.start()
    process.join(30)
    recorder.flush()
    assert [entry["step_count"] for entry in lines(tmp_path)] == [1, 2]
    (other,) = tmp_path.glob("goodput.2*.jsonl")
    assert [entry["step_count"] for entry in lines(tmp_path, other.name)] == [99]


def test_the_queue_is_bounded(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    from ml_metrics_telemetry.destinations import LocalFile
    from ml_metrics_telemetry.record_log import RecordLog

    (tmp_path / "file").write_text("")
    log = RecordLog(LocalFile(tmp_path / "file" / "below"), lambda record: f"{record}\n".encode(), limit=10)
    for record in range(100):
        log.put(record)
    assert len(log._queue) == 10
    caplog.set_level(logging.WARNING)
    log.close()


def test_orbax_records_become_entries(tmp_path: Path) -> None:
    from dataclasses import dataclass

    @dataclass
    class Saved:
        step: int
        event_type: str = "save"

    recorder = GoodputRecorder("job", "log", True, folder=tmp_path)
    recorder.log_entry(Saved(4))
    recorder.log_entry({"step": 5})
    recorder.log_entry("a line of text")
    recorder.flush()
    assert without_writer(lines(tmp_path)) == [
        {"job_name": "job", "step": 4, "event_type": "save"},
        {"job_name": "job", "step": 5},
    ]


def test_each_entry_names_its_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_RANK", "3")
    for name, host in (("ranked", None), ("named", 'worker "7"')):
        recorder = GoodputRecorder("job", "log", True, folder=tmp_path / name, host=host)
        recorder.record_job_start_time(AT)
        recorder.record_step_start_time(1)
        recorder.close()
    assert [entry["host"] for entry in lines(tmp_path / "ranked")] == [f"{socket.gethostname()}/3"] * 2
    assert [entry["host"] for entry in lines(tmp_path / "named")] == ['worker "7"'] * 2
