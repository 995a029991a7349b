"""A monitor never disturbs training, whatever fails."""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from ml_metrics.measure.cloud import CloudLogger, GCPOptions
from ml_metrics.measure.goodput import GoodputMonitor
from ml_metrics_telemetry import GoodputRecorder
from servers.google_cloud import Monitoring


def scalars(folder: Path) -> dict[str, list[tuple[int, float]]]:
    found = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    found.Reload()
    return {tag: [(one.step, one.value) for one in found.Scalars(tag)] for tag in found.Tags()["scalars"]}


def record(folder: Path) -> GoodputRecorder:
    """A job of 110 s that ended: steps of 20 s, and an evaluation of 10 s."""
    recorder = GoodputRecorder("job", "log", True, folder=folder)
    started = time.time() - 110

    def at(seconds: float) -> datetime:
        return datetime.fromtimestamp(started + seconds, UTC)

    recorder.record_job_start_time(at(0))
    for step in range(4):
        recorder.record_step_start_time(step, at(20 * step))
    recorder.record_custom_badput_event_start_time(at(70), "eval")
    recorder.record_custom_badput_event_end_time(at(80), "eval")
    recorder.record_step_start_time(4, at(90))
    recorder.record_job_end_time(at(110))
    return recorder


patient_monitor = partial(GoodputMonitor, final_flush_timeout_seconds=120.0)
"""A monitor whose process may not have started yet when it is stopped, on a busy machine."""


@pytest.mark.e2e
def test_stopping_uploads_the_final_figures(tmp_path: Path) -> None:
    record(tmp_path)
    monitor = patient_monitor("job", "log", tmp_path / "curves", np.float64(600), True, folder=tmp_path)
    monitor.start_goodput_uploader()
    monitor.start_rolling_window_goodput_uploader([50])
    monitor.stop_goodput_uploader()
    found = scalars(tmp_path / "curves" / "goodput")
    assert found["goodput/goodput"][-1] == (4, pytest.approx(100 / 1.1))
    assert "goodput/last_50s" not in found
    monitor.stop_rolling_window_goodput_uploader()
    monitor.stop_goodput_uploader()
    found = scalars(tmp_path / "curves" / "goodput")
    assert found["goodput/last_50s"][-1] == (4, pytest.approx(80))
    assert found["badput/custom_badput_events/eval"][-1][1] == pytest.approx(10 / 1.1)
    assert found["badput/other"][-1][1] == pytest.approx(0, abs=1e-4)
    assert {step for step, _ in found["step_deviation"]} == {0, 1, 2, 3}


def test_a_disabled_monitor_starts_no_process(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    monitor = GoodputMonitor("job", "log", tmp_path, 1, folder=tmp_path)
    monitor.start_goodput_uploader()
    assert monitor._process is None
    GoodputMonitor("job", "log", tmp_path, 1, True).start_goodput_uploader()
    assert "ML_METRICS_RUN_DIR" in caplog.text


WHERE = {"project_id": "project", "location": "us-central1-a", "acc_type": "TPU-v5p"}


def wait_for(condition: Callable[[], bool], *, seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().split()[2] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # also if it ends while the file is read
        return False


@pytest.mark.e2e
def test_figures_go_to_cloud_monitoring_while_the_job_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record(tmp_path).close()
    service = Monitoring()
    with service.served() as address:
        monkeypatch.setenv("MONITORING_EMULATOR_HOST", address)
        monitor = GoodputMonitor(
            "job", "log", str(tmp_path / "curves"), 1, True, gcp_options=GCPOptions(**WHERE), folder=tmp_path
        )
        monitor.start_goodput_uploader()
        monitor.start_step_deviation_uploader()
        monitor.start_rolling_window_goodput_uploader([60, 3600])
        wait_for(lambda: len({series.metric.type for series in service.series}) >= 9)
        monitor.stop_rolling_window_goodput_uploader(skip_final_flush=True)
        monitor.stop_step_deviation_uploader(skip_final_flush=True)
        monitor.stop_goodput_uploader(skip_final_flush=True)
    kinds = {series.metric.type.removeprefix("compute.googleapis.com/workload/") for series in service.series}
    assert kinds == {
        *("goodput_time", "badput_time", "disruptions", "max_productive_steps", "step_time_deviation"),
        *("total_elapsed_time", "performance", "interval_goodput", "interval_badput"),
    }
    sizes = {
        series.metric.labels["rolling_window_size"] for series in service.series if "interval" in series.metric.type
    }
    assert sizes == {"60", "3600"}


@pytest.mark.e2e
@pytest.mark.parametrize("skip", [True, False])
def test_a_last_upload_can_be_skipped(tmp_path: Path, skip: bool) -> None:
    record(tmp_path).close()
    monitor = patient_monitor("job", "log", tmp_path / "curves", 600, True, skip_final_flush=skip, folder=tmp_path)
    monitor.start_goodput_uploader()
    monitor.stop_goodput_uploader()
    assert (tmp_path / "curves").exists() is not skip


@pytest.mark.e2e
def test_stopping_does_not_wait_for_a_process_that_hangs(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # it accepts connections, and never responds
        monkeypatch.setenv("LOGGING_EMULATOR_HOST", f"127.0.0.1:{silent.getsockname()[1]}")
        source = CloudLogger("job", "log", "project")
        monitor = GoodputMonitor(
            "job", "log", tmp_path / "curves", 1, True, final_flush_timeout_seconds=1.0, cloud_logger=source
        )
        monitor.start_goodput_uploader()
        assert monitor._process is not None
        process = monitor._process.pid
        time.sleep(2.0)
        started = time.monotonic()
        monitor.stop_goodput_uploader()
        assert time.monotonic() - started < 10
        assert "could not be written" in caplog.text
        wait_for(lambda: not alive(process))


@pytest.mark.e2e
def test_an_unwritable_folder_does_not_stop_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record(tmp_path).close()
    (tmp_path / "curves").write_text("in the way")
    service = Monitoring(seconds_apart=0)
    with service.served() as address:
        monkeypatch.setenv("MONITORING_EMULATOR_HOST", address)
        monitor = patient_monitor(
            "job", "log", tmp_path / "curves", 600, True, gcp_options=GCPOptions(**WHERE), folder=tmp_path
        )
        monitor.start_goodput_uploader()
        monitor.stop_goodput_uploader()
    assert "compute.googleapis.com/workload/goodput_time" in {series.metric.type for series in service.series}


@pytest.mark.e2e
def test_a_killed_monitor_does_not_affect_training(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    monitor = GoodputMonitor("job", "log", tmp_path / "curves", 600, True, folder=tmp_path)
    monitor.start_goodput_uploader()
    assert monitor._process is not None
    monitor._process.send_signal(signal.SIGKILL)
    monitor._process.wait(30)
    monitor.start_rolling_window_goodput_uploader([60])
    monitor.stop_goodput_uploader()
    monitor.stop_rolling_window_goodput_uploader()
    assert "of job" in caplog.text


PROGRAM = """
import multiprocessing, sys, time
from ml_metrics.measure.goodput import GoodputMonitor
monitor = GoodputMonitor("job", "log", sys.argv[1] + "/curves", 600, True)
monitor.start_goodput_uploader()
worker = multiprocessing.get_context("fork").Process(target=time.sleep, args=(40,), daemon=True)
worker.start()
print(monitor._process.pid, worker.pid, flush=True)
time.sleep(60)
"""


@pytest.mark.e2e
def test_a_worker_that_outlives_training_does_not_keep_the_monitor_running(tmp_path: Path, project: Path) -> None:
    record(tmp_path).close()
    training = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(project / "plugins"), "ML_METRICS_RUN_DIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert training.stdout is not None
    monitor, worker = map(int, training.stdout.readline().split())
    training.send_signal(signal.SIGKILL)
    training.wait()
    wait_for(lambda: not alive(monitor))
    assert alive(worker)
    os.kill(worker, signal.SIGKILL)
    training.stdout.close()
    assert scalars(tmp_path / "curves" / "goodput")["goodput/goodput"][-1] == (4, pytest.approx(100 / 1.1))


@pytest.mark.e2e
@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
def test_a_fork_that_exits_does_not_stop_the_monitor_of_its_parent(tmp_path: Path) -> None:
    record(tmp_path).close()
    monitor = patient_monitor("job", "log", tmp_path / "curves", 600, True, folder=tmp_path)
    monitor.start_goodput_uploader()
    child = os.fork()
    if child == 0:
        monitor._at_exit()
        os._exit(0)
    os.waitpid(child, 0)
    assert monitor._process is not None
    assert monitor._process.poll() is None
    monitor.stop_goodput_uploader()
    assert len(scalars(tmp_path / "curves" / "goodput")["goodput/goodput"]) == 1


def test_a_program_for_the_older_library_works_unchanged(tmp_path: Path) -> None:
    monitor = GoodputMonitor(
        job_name="job",
        logger_name="log",
        tensorboard_dir=str(tmp_path),
        upload_interval=30,
        monitoring_enabled=False,
        pathway_enabled=True,
        include_badput_breakdown=True,
        include_step_deviation=True,
        configured_ideal_step_time=None,
        step_deviation_interval_seconds=30,
        gcp_options=GCPOptions(**WHERE),
        skip_final_flush=False,
        final_flush_timeout_seconds=10,
        gcs_sync_interval_seconds=3600,
        cache_dir="/tmp",
        max_logs_retention_period=None,
    )
    monitor.start_goodput_uploader()
    monitor.start_goodput_interval_uploader(window_size_seconds=43200)
    monitor.stop_goodput_interval_uploader()
    monitor.stop_goodput_uploader()
    with pytest.raises(TypeError, match="enable_gcp"):
        GoodputMonitor("job", "log", "there", 1, enable_gcp=True)  # type: ignore[call-arg]
    assert multiprocessing.active_children() == []
