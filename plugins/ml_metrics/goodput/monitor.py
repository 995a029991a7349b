"""`GoodputMonitor`: what a training program starts to see its goodput in TensorBoard while it runs."""

from __future__ import annotations

import atexit
import json
import logging
import os
import select
import subprocess
import sys
import threading
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ml_metrics.goodput.report import Part
from ml_metrics.goodput.uploader import FactorySpec, Options
from ml_metrics.telemetry.destinations import RUN_DIR

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

logger = logging.getLogger(__name__)

PACKAGES = Path(__file__).parents[2]
"""The folder that holds this package: the other process must find it, too."""
SHORTEST_INTERVAL = 1.0
_UPLOADER = "from ml_metrics.goodput.uploader import main; main()"
_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


class SupportsFactorySpec(Protocol):
    """Something that the other process makes for itself, as it cannot be handed over."""

    def factory_spec(self, job_name: str) -> FactorySpec | None:
        """What to make; None for nothing."""


class GoodputMonitor:
    """Follows the log of a running job in a process of its own. It never raises into the program that calls it.

    Args:
        job_name: The job.
        logger_name: The name of the log in Google Cloud Logging; a file needs none.
        tensorboard_dir: Where scalars go, in a folder `goodput` of it.
        upload_interval: Seconds between two uploads.
        monitoring_enabled: Whether this process monitors. Only one worker of a job should.
        pathway_enabled: Of no effect: the log says the same either way.
        include_badput_breakdown: Whether each bucket is written, too.
        include_step_deviation: Whether each step's deviation is written, too.
        configured_ideal_step_time: How long a step should take; computed if None.
        step_deviation_interval_seconds: Seconds between two uploads of it; none if not positive.
        gcp_options: Where in Google Cloud Monitoring figures go: `ml_metrics.cloud.GCPOptions`. Default: nowhere.
        skip_final_flush: Whether stopping writes nothing more.
        final_flush_timeout_seconds: How long stopping may take; None to wait as long as it needs.
        gcs_sync_interval_seconds: Of no effect, as the next two: nothing is cached, and no window of time is assumed.
        cache_dir: See there.
        max_logs_retention_period: See there.
        include_slice_efficiency: Whether the slices of an elastic job are told to Google Cloud Monitoring, too.
        folder: The run folder. Default: the environment variable `ML_METRICS_RUN_DIR`.
        cloud_logger: Where entries come from in place of files: `ml_metrics.cloud.CloudLogger`.
    """

    def __init__(  # noqa: PLR0913, PLR0917  (the older library's signature)
        self,
        job_name: str,
        logger_name: str,
        tensorboard_dir: str | os.PathLike[str],
        upload_interval: float,
        monitoring_enabled: bool = False,  # noqa: FBT001, FBT002
        pathway_enabled: bool = False,  # noqa: FBT001, FBT002
        include_badput_breakdown: bool = True,  # noqa: FBT001, FBT002
        include_step_deviation: bool = True,  # noqa: FBT001, FBT002
        configured_ideal_step_time: float | None = None,
        step_deviation_interval_seconds: float | None = None,
        gcp_options: SupportsFactorySpec | None = None,
        skip_final_flush: bool = False,  # noqa: FBT001, FBT002
        final_flush_timeout_seconds: float | None = 10.0,
        gcs_sync_interval_seconds: float | None = None,
        cache_dir: str | None = None,
        max_logs_retention_period: Any = None,
        *,
        include_slice_efficiency: bool = False,
        folder: str | os.PathLike[str] | None = None,
        cloud_logger: SupportsFactorySpec | None = None,
    ) -> None:
        del pathway_enabled, gcs_sync_interval_seconds, cache_dir, max_logs_retention_period
        where = os.fspath(folder) if folder is not None else os.environ.get(RUN_DIR, "")
        self.logger_name = logger_name
        self._enabled = monitoring_enabled and bool(where or cloud_logger)
        self._skip_final_flush = skip_final_flush
        self._timeout = final_flush_timeout_seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = os.getpid()
        every = upload_interval if step_deviation_interval_seconds is None else step_deviation_interval_seconds
        self._intervals = {part: max(upload_interval, SHORTEST_INTERVAL) for part in (Part.GOODPUT, Part.WINDOWS)}
        if include_step_deviation and every > 0:
            self._intervals[Part.DEVIATION] = max(every, SHORTEST_INTERVAL)
        export = None if gcp_options is None else gcp_options.factory_spec(job_name)
        if export is not None and include_slice_efficiency:
            export = FactorySpec(export.name, {**export.arguments, "slice_efficiency": True})
        self._options = Options(
            folder=where,
            job_name=job_name,
            tensorboard_dir=os.fspath(tensorboard_dir),
            intervals={},
            badput=include_badput_breakdown,
            ideal_step_time=configured_ideal_step_time,
            source=None if cloud_logger is None else cloud_logger.factory_spec(job_name),
            export=export,
        )
        if monitoring_enabled and not self._enabled:
            logger.warning("goodput of %s is not monitored: give a folder, or set %s", job_name, RUN_DIR)

    def start_goodput_uploader(self) -> None:
        """Begin to write the figures of the job until now, and the deviation of its steps if that is included."""
        self._order({Part.GOODPUT, Part.DEVIATION})

    def start_step_deviation_uploader(self) -> None:
        """Begin to write the deviation of steps, if that is included."""
        self._order({Part.DEVIATION})

    def start_rolling_window_goodput_uploader(self, rolling_windows_seconds: Sequence[float]) -> None:
        """Begin to write the figures of the last so many seconds."""
        self._options = replace(self._options, windows=tuple(dict.fromkeys(rolling_windows_seconds)))
        self._order({Part.WINDOWS})

    def start_goodput_interval_uploader(self, window_size_seconds: float) -> None:
        """The same for one window, under the name it had in early versions of the older library."""
        self.start_rolling_window_goodput_uploader([window_size_seconds])

    def stop_goodput_uploader(self, skip_final_flush: bool | None = None) -> None:  # noqa: FBT001
        """Write the figures a last time, and end."""
        self._end({Part.GOODPUT, Part.DEVIATION}, skip_final_flush)

    def stop_step_deviation_uploader(self, skip_final_flush: bool | None = None) -> None:  # noqa: FBT001
        """Write the deviation of steps a last time, and end."""
        self._end({Part.DEVIATION}, skip_final_flush)

    def stop_rolling_window_goodput_uploader(self, skip_final_flush: bool | None = None) -> None:  # noqa: FBT001
        """Write the figures of the windows a last time, and end."""
        self._end({Part.WINDOWS}, skip_final_flush)

    stop_goodput_interval_uploader = stop_rolling_window_goodput_uploader

    def _order(self, parts: Collection[Part]) -> None:
        """Have these parts written as well, from now on."""
        wanted = {part: self._intervals[part] for part in parts if part in self._intervals}
        if not self._enabled or not wanted:
            return
        self._options = replace(self._options, intervals={**self._options.intervals, **wanted})
        try:
            if self._process is None:
                self._process = _uploader()
                atexit.register(self._at_exit)
            self._tell([])
        except OSError as error:
            logger.warning("goodput of %s is not monitored: %s", self._options.job_name, error)

    def _end(self, parts: Collection[Part], skip_final_flush: bool | None) -> None:  # noqa: FBT001
        """Have these parts written no more. The process ends with the last of them."""
        ending = [part for part in self._options.intervals if part in parts]
        if self._process is None or not ending or os.getpid() != self._owner:  # a fork must not end its parent's
            return
        left = {part: seconds for part, seconds in self._options.intervals.items() if part not in parts}
        self._options = replace(self._options, intervals=left)
        skip = self._skip_final_flush if skip_final_flush is None else skip_final_flush
        try:
            self._tell([] if skip else ending)
            if left and not skip:
                self._wait_for_flush()
        except OSError as error:
            logger.warning("the last goodput of %s could not be written: %s", self._options.job_name, error)
        if not left:
            self._close()

    def _at_exit(self) -> None:
        self._end(set(Part), None)

    def _tell(self, flush: Sequence[Part]) -> None:
        """Send an order. A process that does not read any more is not waited for."""
        if self._process is None or self._process.stdin is None:
            return
        line = json.dumps({"options": asdict(self._options), "flush": list(flush)}).encode() + b"\n"
        os.write(self._process.stdin.fileno(), line)

    def _wait_for_flush(self) -> None:
        """Wait for the sign that parts were written, but not for ever."""
        if self._process is None or self._process.stdout is None:
            return
        answer = self._process.stdout.fileno()
        if not (select.select([answer], [], [], self._timeout)[0] and os.read(answer, 1)):
            raise TimeoutError(f"it takes more than {self._timeout} s")

    def _close(self) -> None:
        """Close the pipe, which ends the process, and wait for it, but not for ever."""
        atexit.unregister(self._at_exit)
        process, self._process = self._process, None
        if process is None or process.stdin is None:
            return
        try:
            process.stdin.close()
            process.wait(self._timeout)
        except (OSError, subprocess.TimeoutExpired) as error:
            logger.warning("the last goodput of %s could not be written: %s", self._options.job_name, error)
            process.kill()
            threading.Thread(target=process.wait, daemon=True).start()  # it may be stuck in a read that cannot be ended
        if process.stdout is not None:
            process.stdout.close()


def _uploader() -> subprocess.Popen[bytes]:
    path = os.pathsep.join([str(PACKAGES), *filter(None, [os.environ.get("PYTHONPATH")])])
    process = subprocess.Popen(
        [sys.executable, "-c", _UPLOADER, str(os.getpid())],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, **_ONE_THREAD, "PYTHONPATH": path},
    )
    if process.stdin is not None:
        os.set_blocking(process.stdin.fileno(), False)
    return process
