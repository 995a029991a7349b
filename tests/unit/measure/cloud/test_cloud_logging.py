from __future__ import annotations

import os
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.cloud.logging_v2.types import LogEntry
from hypothesis import HealthCheck, given, settings

from ml_metrics.core.errors import StorageError
from ml_metrics.measure.cloud import CloudLogger
from ml_metrics.measure.cloud import logging as ours
from ml_metrics.measure.cloud.logging import LogName, filter_of
from ml_metrics.measure.goodput import GoodputCalculator, GoodputRecorder, measure
from servers.google_cloud import Logging
from unit.measure.cloud import older
from unit.measure.goodput import older_library
from unit.measure.goodput.measuring import close
from unit.measure.goodput.random_jobs import orderly_jobs
from unit.measure.goodput.traces import JOB, custom, entry, job_end, job_start, restore, save, span, steps

LOG = "goodput_job"
ENTRIES = [
    *(*job_start(0), *span("tpu_init", 0, 5), *restore(0, 5, 2), *steps(0, 4, 10)),
    *(*custom("eval", 52, 55), *save(4, 55, 3), *steps(5, 9, 63), *job_end(113)),
]


def logger(job: str = JOB, log: str = LOG, **choices: Any) -> CloudLogger:
    return CloudLogger(job, log, "project", **choices)


def write(service: Logging, entries: list[dict[str, Any]], first: datetime, apart: float = 1.0) -> None:
    """Put entries into the service as if they had been written some time ago."""
    for number, payload in enumerate(entries):
        moment = first + timedelta(seconds=number * apart)
        key = (f"projects/project/logs/{LOG}", moment.isoformat(), f"id{len(service.entries):06d}")
        service.entries[key] = LogEntry(
            log_name=key[0], timestamp=moment, insert_id=key[2], severity="INFO", json_payload=payload
        )


def theirs(entries: list[dict[str, Any]]) -> float:
    with older_library.calculator(entries, 500.0) as calculator:
        return float(calculator.get_job_goodput()[0])


def record(recorder: Any) -> None:
    """A job as a program records it, with either recorder."""

    def at(seconds: float) -> datetime:
        return datetime.fromtimestamp(seconds, UTC)

    recorder.record_job_start_time(at(0))
    recorder.record_tpu_init_start_time(at(1))
    recorder.record_tpu_init_end_time(at(4))
    for step in range(1200):
        recorder.record_step_start_time(step, at(10 + 5 * step))
    recorder.record_custom_badput_event_start_time(at(6006), "eval")
    recorder.record_custom_badput_event_end_time(at(6007.25), "eval")
    recorder.record_step_start_time(1200, at(6010))
    recorder.record_job_end_time(at(6015))
    recorder.flush()


@pytest.mark.usefixtures("logging_service")
def test_logs_of_both_recorders_give_the_same_result_with_both_calculators() -> None:
    found = []
    for log, recorder in (
        ("ours", GoodputRecorder(JOB, "ours", True, logger(log="ours"))),
        ("theirs", older.goodput.GoodputRecorder(JOB, "theirs", True, older.cloud_logger(JOB, "theirs"))),
    ):
        record(recorder)
        own = GoodputCalculator(JOB, log, logger(log=log)).get_job_goodput(include_badput_breakdown=True)
        payloads, _ = older.cloud_logger(JOB, log).read_cloud_logging_entries()
        with older_library.calculator(payloads, 7000.0) as one:
            their_own = one.get_job_goodput(include_badput_breakdown=True)
        for answer in (own, their_own):
            percent = {kind.name: value for kind, value in answer[1].items()}
            found.append((answer[0], percent["TPU_INITIALIZATION"], percent["CUSTOM_BADPUT_EVENTS"], answer[2]))
    assert len(found) == 4
    for goodput, init, events, step in found:
        assert (goodput, init, events, step) == (
            pytest.approx(found[0][0]),
            pytest.approx(3 / 6015 * 100),
            {"EVAL": pytest.approx(1.25 / 6015 * 100)},
            1200,
        )


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(orderly_jobs())
def test_a_cloud_log_gives_the_same_result_as_a_file(entries: list[dict[str, Any]]) -> None:
    service = Logging()
    with service.served() as address, pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOGGING_EMULATOR_HOST", address)
        write(service, entries, datetime(2026, 1, 1, tzinfo=UTC))
        found = measure(logger(), until=1.7e9 + 20_000.0)
    expected = measure(peer_source(entries), until=1.7e9 + 20_000.0)
    assert found.found == expected.found
    assert close(found.productive_seconds, expected.productive_seconds)
    assert found.badput_seconds == pytest.approx(expected.badput_seconds)


def peer_source(entries: list[dict[str, Any]]) -> Any:
    from ml_metrics.measure.goodput.log import EntryReaderSource

    return EntryReaderSource(older_library.MemoryLogger(entries), JOB)


def test_a_job_longer_than_a_week_is_read_from_its_start(logging_service: Logging) -> None:
    now = datetime.now(UTC)
    write(logging_service, ENTRIES[:4], now - timedelta(days=20))
    write(logging_service, ENTRIES[4:], now - timedelta(hours=1))
    assert len(older.cloud_logger(JOB, LOG).read_cloud_logging_entries()[0]) == len(ENTRIES) - 4
    assert len(logger().read_cloud_logging_entries()[0]) == len(ENTRIES)
    assert GoodputCalculator(JOB, LOG, logger()).get_job_goodput()[0] == pytest.approx(theirs(ENTRIES))
    week = logger(max_logs_retention_period=timedelta(days=7))
    assert len(week.read_cloud_logging_entries()[0]) == len(ENTRIES) - 4


def test_all_pages_are_read(logging_service: Logging) -> None:
    entries = [*job_start(0), *steps(0, 2599, 0), *job_end(26_000)]
    write(logging_service, entries, datetime.now(UTC) - timedelta(days=1))
    found = measure(logger())
    assert (found.last_step, found.goodput_percent) == (2599, 100)
    assert len(logging_service.filters) == 3


def test_only_this_job_and_this_log_are_read(logging_service: Logging) -> None:
    write(logging_service, ENTRIES, datetime.now(UTC) - timedelta(hours=1))
    write(logging_service, [{**one, "job_name": 'an"other'} for one in ENTRIES], datetime.now(UTC))
    assert len(logger().read_cloud_logging_entries()[0]) == len(ENTRIES)
    assert len(logger('an"other').read_cloud_logging_entries()[0]) == len(ENTRIES)
    assert logger(log="elsewhere").read_cloud_logging_entries() == ([], (None, None))
    assert measure(logger("nobody")).warnings[-1] == "there is no goodput log"


def test_the_filter_is_that_of_ml_goodput_measurement() -> None:
    start, end = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)
    with Logging().served() as address, pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOGGING_EMULATOR_HOST", address)
        expected = older.cloud_logger(JOB, LOG)._get_filter_msg(start, end)
    assert filter_of(LogName("project", LOG), JOB, start, end) == expected
    assert filter_of(LogName("project", "a/b"), 'x" OR severity>"', start) == (
        'logName="projects/project/logs/a%2Fb" AND severity=INFO AND jsonPayload.job_name="x\\" OR severity>\\"" AND '
        'timestamp>"2026-01-01T00:00:00+00:00"'
    )


def test_the_next_read_requests_only_new_entries(logging_service: Logging) -> None:
    first = datetime.now(UTC) - timedelta(hours=2)
    write(logging_service, ENTRIES[:6], first, apart=600)
    reader = logger()
    assert len(reader.read()) == 6
    write(logging_service, ENTRIES[6:8], first + timedelta(seconds=2970))  # seen late: before the newest of the others
    write(logging_service, ENTRIES[8:], first + timedelta(seconds=3001))
    assert len(reader.read()) == len(ENTRIES)
    assert len(reader.read()) == len(ENTRIES)
    assert len({query.rpartition("timestamp>")[2] for query in logging_service.filters}) == 3


def test_entries_after_a_given_entry_can_be_requested(logging_service: Logging) -> None:
    write(logging_service, ENTRIES, datetime.now(UTC) - timedelta(hours=1), apart=0)
    reader = logger()
    everything, last = reader.read_cloud_logging_entries()
    assert (len(everything), last[1]) == (len(ENTRIES), f"id{len(ENTRIES) - 1:06d}")
    middle = (last[0], "id000004")
    assert len(reader.read_cloud_logging_entries(last_entry_info=middle)[0]) == len(ENTRIES) - 5  # type: ignore[arg-type]


def test_requests_to_a_busy_service_are_retried(logging_service: Logging) -> None:
    write(logging_service, ENTRIES, datetime.now(UTC) - timedelta(hours=1))
    logging_service.refusals = [grpc.StatusCode.RESOURCE_EXHAUSTED]
    assert measure(logger()).goodput_percent == pytest.approx(theirs(ENTRIES))


def test_an_error_of_the_service_is_a_storage_error(logging_service: Logging) -> None:
    logging_service.refusals = [grpc.StatusCode.PERMISSION_DENIED]
    with pytest.raises(StorageError, match="projects/project/logs/goodput_job"):
        measure(logger())


def test_lost_responses_neither_lose_nor_duplicate_entries(
    logging_service: Logging, caplog: pytest.LogCaptureFixture
) -> None:
    logging_service.lose_answers = 1
    logging_service.refusals = [grpc.StatusCode.PERMISSION_DENIED]
    recorder = GoodputRecorder(JOB, LOG, True, logger())
    for step in range(700):
        recorder.record_step_start_time(step)
    for _ in range(3):
        recorder.flush()
    assert "cannot be written now" in caplog.text
    steps_read = [one["step_count"] for one in logger().read_cloud_logging_entries()[0]]
    assert steps_read == list(range(700))


def test_a_rejected_entry_does_not_affect_others(logging_service: Logging, caplog: pytest.LogCaptureFixture) -> None:
    logging_service.refusals = [grpc.StatusCode.INVALID_ARGUMENT]
    writer = logger()
    writer.write_cloud_logging_entry(entry("job_start_time", 1))
    writer.flush()
    writer.write_cloud_logging_entry({"job_name": "other", "job_start_time": 2})
    writer.write_cloud_logging_entry(None)
    writer.write_cloud_logging_entry(entry("job_end_time", 2))
    writer.flush()
    assert "rejected entries" in caplog.text
    assert logger().read_cloud_logging_entries()[0] == [entry("job_end_time", 2)]


def test_an_unresponsive_service_does_not_block_training(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGGING_EMULATOR_HOST", "127.0.0.1:1")
    monkeypatch.setattr(ours.LogBatches, "interval", 0.01)
    recorder = GoodputRecorder(JOB, LOG, True, logger())
    began = time.monotonic()
    for step in range(1000):
        recorder.record_step_start_time(step)
    assert time.monotonic() - began < 5


PROGRAM = """
import sys, time
from ml_metrics.measure.cloud import CloudLogger
from ml_metrics_telemetry import GoodputRecorder
recorder = GoodputRecorder("job", "goodput_job", True, CloudLogger("job", "goodput_job", "project"))
for step in range(1000):
    recorder.record_step_start_time(step)
if sys.argv[1] == "killed":
    time.sleep(120)
"""


@pytest.mark.parametrize("how", ["killed", "ended"])
def test_entries_are_sent_however_the_program_ends(logging_service: Logging, project: Path, how: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(project / "plugins")}
    with subprocess.Popen([sys.executable, "-c", PROGRAM, how], env=environment) as process:
        deadline = time.monotonic() + 60
        while process.poll() is None and len(logging_service.entries) < 1000 and time.monotonic() < deadline:
            time.sleep(0.05)
        if how == "killed":
            assert process.poll() is None, "it was to send its entries while it runs"
            process.kill()
        assert process.wait(timeout=300) == (-9 if how == "killed" else 0)
    assert len(logging_service.entries) == 1000


def test_an_address_names_the_project_and_the_log() -> None:
    found = CloudLogger.at("cloud-logging://project/goodput/of job", JOB)
    assert (found.project_id, found.log_name) == ("project", "goodput/of job")
    for wrong in ("cloud-logging://project", "cloud-logging:///log", "gs://bucket/log"):
        with pytest.raises(StorageError, match="PROJECT/LOG"):
            CloudLogger.at(wrong, JOB)
