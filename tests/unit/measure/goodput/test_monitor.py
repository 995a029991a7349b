from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from ml_metrics.measure.goodput import GoodputMonitor
from ml_metrics_telemetry import GoodputRecorder

if TYPE_CHECKING:
    from functools import partial
from pathlib import Path


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
    monitor = patient_monitor("job", "log", tmp_path / "curves", 600, True, folder=tmp_path)
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


@pytest.mark.e2e
def test_the_monitor_ends_when_the_training_program_is_killed(tmp_path: Path, project: Path) -> None:
    record(tmp_path).close()
    program = (
        "import sys, time; from ml_metrics.measure.goodput import GoodputMonitor; "
        "monitor = GoodputMonitor('job', 'log', sys.argv[1] + '/curves', 600, True); "
        "monitor.start_goodput_uploader(); print(monitor._process.pid, flush=True); time.sleep(60)"
    )
    training = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(project / "plugins"), "ML_METRICS_RUN_DIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert training.stdout is not None
    monitor = int(training.stdout.readline())
    training.send_signal(signal.SIGKILL)
    training.communicate()
    deadline = time.monotonic() + 30
    while os.path.exists(f"/proc/{monitor}") and time.monotonic() < deadline:  # noqa: PTH110  (not a file)
        time.sleep(0.05)
    assert not os.path.exists(f"/proc/{monitor}")  # noqa: PTH110
    assert scalars(tmp_path / "curves" / "goodput")["goodput/goodput"][-1] == (4, pytest.approx(100 / 1.1))


def test_a_disabled_monitor_starts_no_process(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    monitor = GoodputMonitor("job", "log", tmp_path, 1, folder=tmp_path)
    monitor.start_goodput_uploader()
    assert monitor._process is None
    GoodputMonitor("job", "log", tmp_path, 1, True).start_goodput_uploader()
    assert "ML_METRICS_RUN_DIR" in caplog.text
