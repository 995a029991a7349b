"""`GoodputMonitor`: a training program starts it to see its goodput in TensorBoard while it runs."""

from __future__ import annotations

import atexit
import logging
import os
import select
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
import numpy as np

from ml_metrics.core.errors import FailureLogged
from ml_metrics.measure.goodput.build import analyse, build_report
from ml_metrics.measure.goodput.log import FollowedLog
from ml_metrics.measure.goodput.report import Part
from ml_metrics_telemetry.destinations import RUN_DIR
from ml_metrics_telemetry.event_file import open_scalar_log

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from ml_metrics.measure.goodput.log import LogSource
    from ml_metrics.measure.goodput.report import GoodputReport


logger = logging.getLogger(__name__)

PARENT_CHECK_SECONDS = 1.0
"""How often the process checks whether its parent is still running."""


class Sink(Protocol):
    """A destination of figures."""

    def write(self, found: GoodputReport, parts: Collection[Part]) -> None:
        """Write some parts of a report. An error is logged, and does not stop the upload to other sinks."""


class TensorBoard:
    """Writes reports to a folder `goodput`, at the step that the job has reached.

    Args:
        folder: A path, or an address that fsspec supports.
        badput: Whether each bucket is written as well.
    """

    def __init__(self, folder: str, *, badput: bool = True) -> None:
        self._badput = badput
        self._log = open_scalar_log(f"{folder.rstrip('/')}/goodput")
        self._last_deviation = -1

    def write(self, found: GoodputReport, parts: Collection[Part]) -> None:
        for tag, value in self._scalars(found, parts):
            self._log.put((tag, value, found.max_productive_step, time.time()))
        deviation = found.deviation
        if Part.DEVIATION in parts and deviation is not None:
            # only the newest: fast steps are many, and a curve needs no more points
            new = np.flatnonzero(deviation.step > self._last_deviation)[-1000:]
            for step, value in zip(deviation.step[new].tolist(), deviation.absolute[new].tolist(), strict=True):
                self._log.put(("step_deviation", value, step, time.time()))
                self._last_deviation = step
        self._log.flush()

    def _scalars(self, found: GoodputReport, parts: Collection[Part]) -> Iterator[tuple[str, float]]:
        shown = [(window, f"last_{seconds:.0f}s") for seconds, window in found.windows if Part.WINDOWS in parts]
        for report, name in [*shown, *([(found, "")] if Part.GOODPUT in parts else [])]:
            yield f"goodput/{name or 'goodput'}", report.goodput_percent or 0.0
            prefix = f"badput/{name}".rstrip("/")
            for bucket, spent in report.badput_seconds.items() if self._badput and report.total_seconds else ():
                yield f"{prefix}/{bucket}", spent / report.total_seconds * 100
            for kind, spent in report.custom_badput_seconds.items() if self._badput and report.total_seconds else ():
                yield f"{prefix}/custom_badput_events/{kind.lower()}", spent / report.total_seconds * 100


@dataclass(frozen=True, slots=True)
class FactorySpec:
    """How another process creates an object: the `module:name` of a class or function, and its arguments."""

    name: str
    arguments: dict[str, Any]

    def create(self) -> Any:
        return resolve_name(self.name)(**self.arguments)


@dataclass(frozen=True, slots=True)
class Options:
    """What is uploaded, where to, and how often."""

    folder: str
    job_name: str | None
    tensorboard_dir: str | None
    intervals: dict[Part, float]
    """The parts that are uploaded, and the seconds between two uploads of each."""
    badput: bool = True
    ideal_step_time: float | None = None
    windows: tuple[float, ...] = ()
    stalls: bool = False
    """Whether what a step took beyond any usual step is a bucket."""
    source: FactorySpec | None = None
    """A source of entries other than the folder."""
    export: FactorySpec | None = None
    """A sink in addition to TensorBoard."""


class Uploader:
    """Uploads the figures of one job to the sinks."""

    def __init__(self, options: Options) -> None:
        source = options.source
        self._log: LogSource = source.create() if source else FollowedLog(options.folder, options.job_name)
        self._sinks: list[Sink] = []
        if options.tensorboard_dir is not None:
            self._sinks.append(TensorBoard(options.tensorboard_dir, badput=options.badput))
        if options.export is not None:
            self._sinks.append(options.export.create())
        self._due: dict[Part, float] = {}
        self._last_warning = ""
        self.change(options)

    def change(self, options: Options) -> None:
        """Continue with other parts or intervals. The log and the sinks stay the same."""
        self.options = options
        now = time.monotonic()
        self._due = {part: self._due.get(part, now + seconds) for part, seconds in options.intervals.items()}

    def upload(self, parts: Collection[Part] | None = None) -> GoodputReport:
        """Read the new entries, and upload all current figures or some parts of them."""
        wanted = set(self.options.intervals if parts is None else parts)
        found = build_report(
            analyse(self._log.read(), until=time.time(), stalls=self.options.stalls),
            files=1,
            ideal_step_time=self.options.ideal_step_time,
            windows=self.options.windows,
            steps=Part.DEVIATION in wanted or Part.GOODPUT in wanted,
        )
        for sink in self._sinks if found.found and wanted else ():
            with FailureLogged(self._warn_once, f"goodput of {self.options.job_name} could not be written"):
                sink.write(found, wanted)
        return found

    def seconds_to_wait(self) -> float:
        """Until the next upload, or until the next check of the parent process."""
        return max(0.0, min([PARENT_CHECK_SECONDS, *(moment - time.monotonic() for moment in self._due.values())]))

    def upload_due_parts(self) -> None:
        now = time.monotonic()
        due = [part for part, moment in self._due.items() if moment <= now]
        if due:
            self.try_upload(due)
            now = time.monotonic()
            self._due.update({part: now + self.options.intervals[part] for part in due})

    def try_upload(self, parts: Collection[Part] | None = None) -> None:
        """Upload, and log what fails: a service that does not respond now may do so next time."""
        with FailureLogged(self._warn_once, f"goodput of {self.options.job_name} could not be read"):
            self.upload(parts)

    def _warn_once(self, warning: str) -> None:
        if warning != self._last_warning:
            self._last_warning = warning
            logger.warning("%s", warning)


def main() -> None:
    """Upload at each interval, and once more when standard input ends.

    The argument is the id of the parent process. Each line of standard input has the new options, and the parts to
    flush before they take effect. After a flush, one byte is written to standard output.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is meant for the training program
    os.nice(10)
    parent, uploader, rest = int(sys.argv[1]), None, b""
    decode = msgspec.json.Decoder(tuple[Options, list[Part]]).decode
    while True:
        wait = PARENT_CHECK_SECONDS if uploader is None else uploader.seconds_to_wait()
        if select.select([sys.stdin], [], [], wait)[0]:
            data = os.read(sys.stdin.fileno(), 1 << 16)
            if not data:
                break
            *lines, rest = (rest + data).split(b"\n")
            for options, flush in map(decode, lines):
                if uploader is None:
                    uploader = Uploader(options)
                    continue
                if flush:
                    uploader.try_upload(flush)
                    with suppress(OSError):  # the parent no longer waits for it
                        os.write(sys.stdout.fileno(), b".")
                uploader.change(options)
        elif os.getppid() != parent:  # a fork of the training program may hold the pipe open
            break
        if uploader is not None:
            uploader.upload_due_parts()
    if uploader is not None and uploader.options.intervals:
        uploader.try_upload()


class SupportsFactorySpec(Protocol):
    """An object that the uploader process has to create for itself, as it cannot be sent to another process."""

    def factory_spec(self, job_name: str) -> FactorySpec | None:
        """Return how to create the object; None if there is nothing to create."""


class GoodputMonitor:
    """Follows the log of a running job in a separate process. Its methods never raise into the calling program.

    Args:
        job_name: The job.
        logger_name: The name of the log in Google Cloud Logging; not used for files.
        tensorboard_dir: Scalars are written to its sub-folder `goodput`.
        upload_interval: Seconds between two uploads.
        monitoring_enabled: Whether this process monitors. Only one worker of a job should.
        pathway_enabled: Ignored: the log is the same either way.
        include_badput_breakdown: Whether each bucket is written as well.
        include_step_deviation: Whether each step's deviation is written as well.
        configured_ideal_step_time: How long a step should take, in seconds; computed if None.
        step_deviation_interval_seconds: Seconds between two uploads of the deviation; no uploads if not positive.
        gcp_options: Also send figures to Google Cloud Monitoring: `ml_metrics.measure.cloud.GCPOptions`.
        skip_final_flush: Whether stopping skips the final upload.
        final_flush_timeout_seconds: How long stopping may take; None for no limit.
        gcs_sync_interval_seconds: Ignored, like the next two: nothing is cached, and all of the log is read.
        cache_dir: Ignored.
        max_logs_retention_period: Ignored.
        include_slice_efficiency: Whether to send the slice efficiency of an elastic job to Google Cloud Monitoring.
        folder: The run folder. Default: the environment variable `ML_METRICS_RUN_DIR`.
        cloud_logger: A source of entries other than files: `ml_metrics.measure.cloud.CloudLogger`.
    """

    def __init__(
        self,
        job_name: str,
        logger_name: str,
        tensorboard_dir: str | os.PathLike[str],
        upload_interval: float,
        monitoring_enabled: bool = False,
        pathway_enabled: bool = False,
        include_badput_breakdown: bool = True,
        include_step_deviation: bool = True,
        configured_ideal_step_time: float | None = None,
        step_deviation_interval_seconds: float | None = None,
        gcp_options: SupportsFactorySpec | None = None,
        skip_final_flush: bool = False,
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
        self._process: Any = None
        self._owner = os.getpid()
        own = step_deviation_interval_seconds
        deviation = upload_interval if own is None else own
        self._intervals = {part: max(upload_interval, 1.0) for part in (Part.GOODPUT, Part.WINDOWS)}
        if include_step_deviation and deviation > 0:
            self._intervals[Part.DEVIATION] = max(deviation, 1.0)
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
            logger.warning("goodput of %s is not monitored: pass a folder, or set %s", job_name, RUN_DIR)

    def start_goodput_uploader(self) -> None:
        """Start to upload the figures of the job until now, and its step deviation if that is included."""
        self._start({Part.GOODPUT, Part.DEVIATION})

    def start_step_deviation_uploader(self) -> None:
        """Nothing happens unless the step deviation is included."""
        self._start({Part.DEVIATION})

    def start_rolling_window_goodput_uploader(self, rolling_windows_seconds: Sequence[float]) -> None:
        self._options = replace(self._options, windows=tuple(dict.fromkeys(rolling_windows_seconds)))
        self._start({Part.WINDOWS})

    def start_goodput_interval_uploader(self, window_size_seconds: float) -> None:
        """Early versions of the older library had this method."""
        self.start_rolling_window_goodput_uploader([window_size_seconds])

    def stop_goodput_uploader(self, skip_final_flush: bool | None = None) -> None:
        """Upload the figures a last time, then stop."""
        self._stop({Part.GOODPUT, Part.DEVIATION}, skip_final_flush)

    def stop_step_deviation_uploader(self, skip_final_flush: bool | None = None) -> None:
        self._stop({Part.DEVIATION}, skip_final_flush)

    def stop_rolling_window_goodput_uploader(self, skip_final_flush: bool | None = None) -> None:
        self._stop({Part.WINDOWS}, skip_final_flush)

    stop_goodput_interval_uploader = stop_rolling_window_goodput_uploader

    def _start(self, parts: Collection[Part]) -> None:
        wanted = {part: self._intervals[part] for part in parts if part in self._intervals}
        if not self._enabled or not wanted:
            return
        self._options = replace(self._options, intervals={**self._options.intervals, **wanted})
        try:
            if self._process is None:
                self._process = _start_process()
                atexit.register(self._at_exit)
            self._send([])
        except OSError as error:
            logger.warning("goodput of %s is not monitored: %s", self._options.job_name, error)

    def _stop(self, parts: Collection[Part], skip_final_flush: bool | None) -> None:
        """The process ends when no part is left."""
        stopping = [part for part in self._options.intervals if part in parts]
        if self._process is None or not stopping or os.getpid() != self._owner:  # a fork must not stop its parent's
            return
        left = {part: seconds for part, seconds in self._options.intervals.items() if part not in parts}
        self._options = replace(self._options, intervals=left)
        skip = self._skip_final_flush if skip_final_flush is None else skip_final_flush
        try:
            self._send([] if skip else stopping)
            if left and not skip:
                output = self._process.stdout.fileno()
                if not (select.select([output], [], [], self._timeout)[0] and os.read(output, 1)):
                    raise TimeoutError(f"it takes longer than {self._timeout} s")
        except OSError as error:
            logger.warning("the final goodput of %s could not be written: %s", self._options.job_name, error)
        if not left:
            self._close()

    def _at_exit(self) -> None:
        self._stop(set(Part), None)

    def _send(self, flush: Sequence[Part]) -> None:
        """Send the options, and the parts to upload at once, without waiting for a process that no longer reads."""
        os.write(self._process.stdin.fileno(), msgspec.json.encode((self._options, flush), enc_hook=float) + b"\n")

    def _close(self) -> None:
        """Close the pipe, which ends the process, and wait for it within the timeout."""
        atexit.unregister(self._at_exit)
        process, self._process = self._process, None
        try:
            process.stdin.close()
            process.wait(self._timeout)
        except (OSError, subprocess.TimeoutExpired) as error:
            logger.warning("the final goodput of %s could not be written: %s", self._options.job_name, error)
            process.kill()
            # in the background, because the process may be in an uninterruptible read
            threading.Thread(target=process.wait, daemon=True).start()
        process.stdout.close()


def _start_process() -> Any:
    """Start the program above, which imports this package from where it is, with pipes to and from it."""
    path = os.pathsep.join([str(Path(__file__).parents[3]), *filter(None, [os.environ.get("PYTHONPATH")])])
    single_threaded = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    process = subprocess.Popen(
        [sys.executable, "-c", "from ml_metrics.measure.goodput.monitor import main; main()", str(os.getpid())],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, **single_threaded, "PYTHONPATH": path},
    )
    os.set_blocking(process.stdin.fileno(), False)  # type: ignore[union-attr]  # it is a pipe
    return process
