"""Samples of GPUs and TPUs while a program runs: `python -m ml_metrics_telemetry.devices SOURCE`, or `record_devices`.

A process of its own reads the DCGM exporter's text from an address or a file, or runs `tpu-info`, and appends what it
reads to a file in the run folder. Whatever the source does, the training program does not wait for it.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from typing import Any

from ml_metrics_telemetry.destinations import RUN_DIR

logger = logging.getLogger(__name__)

EVERY = 15.0
"""Seconds between two samples."""
TIMEOUT = 10.0
"""Seconds after which a source that has not answered is given up until the next sample."""
LOOK = 1.0
"""Seconds between two checks whether the program still runs."""


def record_devices(source: str, *, every: float = EVERY, folder: str | os.PathLike[str] | None = None) -> None:
    """Record samples of this host's devices until the program ends, in whatever way. It never raises.

    In a job of several processes on a host, only the one with `LOCAL_RANK` 0 records.

    Args:
        source: The address of a DCGM exporter, such as `http://localhost:9400/metrics`; the path of a file with its
            text, which is rewritten again and again; or `tpu-info`.
        every: Seconds between two samples.
        folder: A path or `gs://bucket/folder`. Default: the environment variable `ML_METRICS_RUN_DIR`.
    """
    if os.environ.get("LOCAL_RANK", "0") not in ("", "0"):
        return
    where = os.fspath(folder) if folder is not None else os.environ.get(RUN_DIR)
    if not where:
        logger.warning("devices are not recorded: pass a folder, or set %s", RUN_DIR)
        return
    try:
        _start([source, "--every", str(every), "--folder", where])
    except Exception as error:  # noqa: BLE001  (never into training)
        logger.warning("devices are not recorded: %s: %s", type(error).__name__, error)


def _start(arguments: list[str]) -> None:
    import atexit
    import subprocess

    process = subprocess.Popen(
        [sys.executable, "-m", "ml_metrics_telemetry.devices", *arguments, "--parent", str(os.getpid())],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        start_new_session=True,  # a signal for the program's group is not for the samples
    )
    atexit.register(_stop, os.getpid(), process)


def _stop(pid: int, process: Any) -> None:
    if os.getpid() == pid:  # not in a forked child, whose parent goes on
        process.kill()
        process.wait(LOOK)


def main(arguments: list[str] | None = None) -> int:
    """Sample until the program of `--parent` has ended, or without end. Returns the exit status."""
    import argparse

    from ml_metrics_telemetry.device_sources import source_of
    from ml_metrics_telemetry.device_writer import DeviceWriter

    parser = argparse.ArgumentParser(prog="python -m ml_metrics_telemetry.devices", description="Record GPUs or TPUs.")
    parser.add_argument("source", help="an address or a file of the DCGM exporter, or tpu-info")
    parser.add_argument("--every", type=_seconds, default=EVERY, help="seconds between two samples (%(default)s)")
    parser.add_argument("--timeout", type=_seconds, default=TIMEOUT, help="seconds for each sample (%(default)s)")
    parser.add_argument("--folder", default=os.environ.get(RUN_DIR), help=f"default: the value of {RUN_DIR}")
    parser.add_argument("--parent", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if not options.folder:
        parser.error(f"pass --folder, or set {RUN_DIR}")
    try:
        source = source_of(options.source)
    except ValueError as error:
        parser.error(str(error))
    writer = DeviceWriter(source, options.folder, options.timeout)
    due = time.monotonic()
    while _alive(options.parent):
        if time.monotonic() >= due:
            due = max(due + options.every, time.monotonic())
            if not writer.sample():
                return 0
        time.sleep(min(LOOK, max(due - time.monotonic(), 0.0)))
    return 0


def _alive(parent: int | None) -> bool:
    """Return whether the program that started this process still runs: an orphan gets another parent."""
    return parent is None or os.getppid() == parent


def _seconds(text: str) -> float:
    value = float(text)
    if not 0.1 <= value <= 86_400:
        raise ValueError(text)
    return value


if __name__ == "__main__":
    sys.exit(main())
