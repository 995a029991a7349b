"""A program that ends has uploaded everything, with the real gcsfs, no matter when its first upload was."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ml_metrics.store import storage

PROGRAM = """
import sys, time
from ml_metrics_telemetry import GoodputRecorder, JsonLinesMetricHandler, TensorBoardMetricHandler
from ml_metrics_telemetry import configure, put_metric
recorder = GoodputRecorder("job", "log", True)
configure(JsonLinesMetricHandler(), "lines")
configure(TensorBoardMetricHandler(), "events")
def write():
    for group in ("lines", "events"):
        put_metric("accuracy", 0.5, group)
    recorder.record_step_start_time(1)
for pause in sys.argv[1:]:
    write()
    time.sleep(float(pause))
write()
"""
PREFIXES = ("goodput.", "telemetry.", "telemetry/events.out.tfevents.")


@pytest.mark.parametrize("pauses", [[], ["1.5"]], ids=["at once", "after a first write"])
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_no_record_is_lost(bucket: str, project: Path, host: str, pauses: list[str]) -> None:
    """With a host name instead of an address, asyncio needs a thread to resolve it."""
    url = os.environ["STORAGE_EMULATOR_HOST"].replace("127.0.0.1", host)
    environment = {**os.environ, "STORAGE_EMULATOR_HOST": url, "PYTHONPATH": str(project / "plugins")}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *pauses],
        env={**environment, "ML_METRICS_RUN_DIR": bucket},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")
    files = {file.name: storage.read_bytes(file.path) for file in storage.list_files(bucket)}
    assert [sum(name.startswith(prefix) for name in files) for prefix in PREFIXES] == [1, 1, 1]
    for name, content in files.items():
        word = b"lines" if name.startswith("telemetry.") else b"step_count"
        points = content.count(b"events/accuracy" if "/events." in name else word)
        assert points == len(pauses) + 1, name
