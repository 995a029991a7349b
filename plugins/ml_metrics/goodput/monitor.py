"""`GoodputMonitor`: what a training program starts to see its goodput in TensorBoard while it runs."""

from __future__ import annotations

import atexit
import json
import logging
import os
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ml_metrics.goodput.uploads import Options
from ml_metrics.telemetry.places import RUN_DIR

if TYPE_CHECKING:
    from collections.abc import Sequence

logger = logging.getLogger(__name__)

PACKAGES = Path(__file__).parents[2]
"""The folder that holds this package: the other process must find it, too."""
_UPLOADER = "from ml_metrics.goodput.uploads import main; main()"


class GoodputMonitor:
    """Follows the log of a running job in a process of its own. It never raises into the program that calls it.

    Args:
        job_name: The job.
        logger_name: The name of the log in Google Cloud Logging; a file needs none.
        tensorboard_dir: Where scalars go, in a folder `goodput` of it.
        upload_interval: Seconds between two uploads.
        monitoring_enabled: Whether this process monitors. Only one worker of a job should.
        include_badput_breakdown: Whether each bucket is written, too.
        include_step_deviation: Whether each step's deviation is written, too.
        configured_ideal_step_time: How long a step should take; computed if None.
        folder: The run folder. Default: the environment variable `ML_METRICS_RUN_DIR`.
        final_flush_timeout_seconds: How long stopping may take; None to wait as long as it needs.
    """

    def __init__(  # noqa: PLR0913, PLR0917  (the older library's signature)
        self,
        job_name: str,
        logger_name: str,
        tensorboard_dir: str | os.PathLike[str],
        upload_interval: float,
        monitoring_enabled: bool = False,  # noqa: FBT001, FBT002
        include_badput_breakdown: bool = True,  # noqa: FBT001, FBT002
        include_step_deviation: bool = True,  # noqa: FBT001, FBT002
        configured_ideal_step_time: float | None = None,
        *,
        folder: str | os.PathLike[str] | None = None,
        final_flush_timeout_seconds: float | None = 10.0,
    ) -> None:
        where = os.fspath(folder) if folder is not None else os.environ.get(RUN_DIR, "")
        self.logger_name = logger_name
        self._enabled = monitoring_enabled and bool(where)
        self._timeout = final_flush_timeout_seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._options = Options(
            folder=where,
            job_name=job_name,
            tensorboard_dir=os.fspath(tensorboard_dir),
            interval=upload_interval,
            badput=include_badput_breakdown,
            deviation=include_step_deviation,
            ideal_step_time=configured_ideal_step_time,
        )
        if monitoring_enabled and not where:
            logger.warning("goodput of %s is not monitored: give a folder, or set %s", job_name, RUN_DIR)

    def start_goodput_uploader(self) -> None:
        """Begin to write the figures of the job until now."""
        self._start(self._options)

    def start_rolling_window_goodput_uploader(self, rolling_windows_seconds: Sequence[float]) -> None:
        """Begin to write them for the last so many seconds, too."""
        self._stop()
        self._start(replace(self._options, windows=tuple(rolling_windows_seconds)))

    def stop_goodput_uploader(self) -> None:
        """Write the figures a last time, and end."""
        self._stop()

    stop_rolling_window_goodput_uploader = stop_goodput_uploader

    def _start(self, options: Options) -> None:
        if not self._enabled or self._process is not None:
            return
        atexit.register(self._stop)
        path = os.pathsep.join([str(PACKAGES), *filter(None, [os.environ.get("PYTHONPATH")])])
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _UPLOADER, json.dumps(asdict(options))],
                stdin=subprocess.PIPE,
                env={**os.environ, "PYTHONPATH": path},
            )
        except OSError as error:
            logger.warning("goodput of %s is not monitored: %s", options.job_name, error)

    def _stop(self) -> None:
        atexit.unregister(self._stop)
        process, self._process = self._process, None
        if process is None or process.stdin is None:
            return
        try:
            process.stdin.close()
            process.wait(self._timeout)
        except (OSError, subprocess.TimeoutExpired) as error:
            logger.warning("the last goodput of %s could not be written: %s", self._options.job_name, error)
            process.kill()
            process.wait()
