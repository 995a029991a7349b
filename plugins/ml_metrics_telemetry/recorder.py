"""The goodput recorder: a log of a training program's time, as one JSON object per line.

Methods, arguments and log fields are the same as in ml-goodput-measurement, so that writer and reader can be replaced
independently.
"""

from __future__ import annotations

import json
import logging
import os
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from ml_metrics_telemetry.destinations import RUN_DIR, open_destination
from ml_metrics_telemetry.record_log import RecordLog

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

logger = logging.getLogger(__name__)

STEM = "goodput"

_EVENTS = {
    "job": "job",
    "tpu_init": "tpu_init",
    "accelerator_init": "tpu_init",
    "training_preparation": "training_prep",
    "training_prep": "training_prep",
    "data_loading": "data_loading",
    "elastic_reinit": "elastic_reinit",
}
"""The event names of `record_event` and the prefix of their fields. All other names are custom events."""


class EntryWriter(Protocol):
    """Another destination for entries, such as a logger of Google Cloud Logging."""

    def write_cloud_logging_entry(self, entry: dict[str, Any]) -> None:
        """Write one entry."""

    def flush(self) -> None:
        """Write all buffered entries."""


class GoodputRecorder:
    """Records how a job spends its time. It never raises in the program that calls it.

    Args:
        job_name: The full name of the job. Every entry has it.
        logger_name: The name of the log in Google Cloud Logging, for `cloud_logger`. Not needed for a file.
        logging_enabled: Whether this process writes. One worker of a job is enough; if several write, their step times
            are compared, and the times of the job are by the clock of one of them.
        cloud_logger: Receives the entries instead of a file.
        folder: The folder of `goodput.jsonl`: a path or `gs://bucket/folder`. Default: the environment variable
            `ML_METRICS_RUN_DIR`.
        host: The name of this worker in reports, the same after a restart. Default: the name of the host, and
            `LOCAL_RANK` if that is set, as by torchrun.
        background_grace_period_s: Ignored, as are the next two: they configure the older library's cloud client.
        background_batch_size: Ignored.
        background_max_latency_s: Ignored.
    """

    def __init__(
        self,
        job_name: str,
        logger_name: str = "",
        logging_enabled: bool = False,
        cloud_logger: EntryWriter | None = None,
        *,
        folder: str | os.PathLike[str] | None = None,
        host: str | None = None,
        background_grace_period_s: float | None = None,
        background_batch_size: int | None = None,
        background_max_latency_s: float | None = None,
    ) -> None:
        del background_grace_period_s, background_batch_size, background_max_latency_s
        self.job_name = job_name
        self.logger_name = logger_name
        self.host = str(host) if host else _default_host()
        self._cloud_logger = cloud_logger if logging_enabled else None
        self._log: RecordLog | None = None
        self._warned = False
        if logging_enabled and cloud_logger is None:
            self._log = _open_log(folder, job_name, self.host)
        self.enabled = self._log is not None or self._cloud_logger is not None

    def record_step_start_time(self, step: int, start_time: datetime | None = None) -> None:
        """A step starts."""
        if self._log is not None and start_time is None and type(step) is int:
            self._log.put((step, time.time()))
            return
        if not self.enabled:
            return
        try:
            number = int(step)
        except (TypeError, ValueError) as error:
            self._warn_once(error)
            return
        self._mark("step_start_time", start_time, step_count=number)

    def record_job_start_time(self, start_time: datetime | None = None) -> None:
        """The job starts or restarts."""
        self._mark("job_start_time", start_time)

    def record_job_end_time(self, end_time: datetime | None = None) -> None:
        """The job ends: its last step is complete."""
        self._mark("job_end_time", end_time)
        self.flush()

    def record_tpu_init_start_time(self, start_time: datetime | None = None) -> None:
        """Discovery and setup of the accelerators start."""
        self._mark("tpu_init_start_time", start_time)

    def record_tpu_init_end_time(self, end_time: datetime | None = None) -> None:
        """The accelerators are ready."""
        self._mark("tpu_init_end_time", end_time)

    def record_training_preparation_start_time(self, start_time: datetime | None = None) -> None:
        """Setup of models, checkpoints and programs starts."""
        self._mark("training_prep_start_time", start_time)

    def record_training_preparation_end_time(self, end_time: datetime | None = None) -> None:
        """Setup is complete, and training can start."""
        self._mark("training_prep_end_time", end_time)

    def record_data_loading_start_time(self, start_time: datetime | None = None) -> None:
        """The program requests a batch."""
        self._mark("data_loading_start_time", start_time)

    def record_data_loading_end_time(self, end_time: datetime | None = None) -> None:
        """The batch is loaded."""
        self._mark("data_loading_end_time", end_time)

    def record_custom_badput_event_start_time(
        self, start_time: datetime | None = None, custom_badput_event_type: str = "unknown"
    ) -> None:
        """Something that interrupts training starts inside the training loop, such as an evaluation."""
        self._mark("custom_badput_event_start_time", start_time, custom_badput_event_type=custom_badput_event_type)

    def record_custom_badput_event_end_time(
        self, end_time: datetime | None = None, custom_badput_event_type: str = "unknown"
    ) -> None:
        """The interruption ends."""
        self._mark("custom_badput_event_end_time", end_time, custom_badput_event_type=custom_badput_event_type)

    def record_elastic_slice_counts(
        self, active_slices: int, total_slices: int, available_slices: int, timestamp: datetime | None = None
    ) -> None:
        """Record the number of slices that are training, exist and are available."""
        counts = {"active_slices": active_slices, "total_slices": total_slices, "available_slices": available_slices}
        self._mark("elastic_slice_counts_timestamp", timestamp, **counts)

    def record_elastic_wait_start_time(self, event_type: str, start_time: datetime | None = None) -> None:
        """Training starts waiting for slices: `scale_up` or `slice_down`."""
        self._mark("elastic_wait_start_time", start_time, elastic_wait_event_type=event_type)

    def record_elastic_wait_end_time(self, event_type: str, end_time: datetime | None = None) -> None:
        """The slices are available."""
        self._mark("elastic_wait_end_time", end_time, elastic_wait_event_type=event_type)

    def record_elastic_reinit_start_time(self, start_time: datetime | None = None) -> None:
        """Setup for another number of slices starts."""
        self._mark("elastic_reinit_start_time", start_time)

    def record_elastic_reinit_end_time(self, end_time: datetime | None = None) -> None:
        """Training continues."""
        self._mark("elastic_reinit_end_time", end_time)

    def record_checkpoint_progress(self, step: int, checkpoint_start_time: datetime | None = None) -> None:
        """A checkpoint of all steps up to this one starts. For information only: no figure is computed from it."""
        self._mark("checkpoint_start_time", checkpoint_start_time, checkpoint_step=step)

    def log_entry(self, message: Any) -> None:
        """Write a dict or dataclass of a checkpoint library. With this method, a recorder is an Orbax logger."""
        if not self.enabled:
            return
        if hasattr(type(message), "__dataclass_fields__"):
            from dataclasses import asdict

            self._write(asdict(message))
        elif isinstance(message, dict):
            self._write(message)

    @contextmanager
    def record_event(self, event: Any, **arguments: Any) -> Iterator[None]:
        """Record the start and the end of a block.

        The end is recorded even if the block raises, because the time was spent. The exception is `job`: a job that
        raises did not end, and its last step is not complete.

        Args:
            event: `job`, `tpu_init`, `training_preparation`, `data_loading`, `elastic_reinit`, or the name of a
                custom event; `step` with `step=number`. Members of an enum are replaced by their values.
            arguments: Additional fields of the entries.
        """
        name = str(getattr(event, "value", event)).lower()
        if name == "step":
            self.record_step_start_time(arguments.get("step", 0))
            yield
            return
        begins, arguments = _fields_of(name, arguments)
        self._mark(f"{begins}_start_time", None, **arguments)
        completed = False
        try:
            yield
            completed = True
        finally:
            if completed or begins != "job":
                self._mark(f"{begins}_end_time", None, **arguments)

    def record_past_event(self, event: str, started: float) -> None:
        """Record an event of `record_event` from a `time.time()` until now, for hooks that are called afterwards."""
        begins, fields = _fields_of(event.lower(), {})
        if self.enabled:
            self._write({**fields, f"{begins}_start_time": started})
            self._write({**fields, f"{begins}_end_time": max(time.time(), started)})

    def flush(self) -> None:
        """Wait until everything is written, for at most ten seconds."""
        try:
            if self._log is not None:
                self._log.flush()
            elif self._cloud_logger is not None:
                self._cloud_logger.flush()
        except Exception as error:  # noqa: BLE001  (never into training)
            self._warn_once(error)

    def close(self) -> None:
        """Flush and close the file."""
        if self._log is not None:
            self._log.close()

    def _mark(self, field: str, moment: datetime | None, **more: Any) -> None:
        if not self.enabled:
            return
        try:
            seconds = time.time() if moment is None else moment.timestamp()
        except (AttributeError, OverflowError, OSError, ValueError) as error:
            self._warn_once(error)
            return
        self._write({**more, field: seconds})

    def _write(self, fields: dict[str, Any]) -> None:
        entry = {"job_name": self.job_name, "host": self.host, "pid": os.getpid(), **fields}
        try:
            if self._log is not None:
                self._log.put(entry)
            elif self._cloud_logger is not None:
                self._cloud_logger.write_cloud_logging_entry(entry)
        except Exception as error:  # noqa: BLE001  (never into training)
            self._warn_once(error)

    def _warn_once(self, error: Exception) -> None:
        if not self._warned:
            self._warned = True
            logger.warning("goodput of %s: an entry could not be recorded: %s", self.job_name, error)


def _fields_of(name: str, arguments: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the prefix of an event's fields, and the other fields of its entries."""
    begins = _EVENTS.get(name)
    if begins is None:
        return "custom_badput_event", {"custom_badput_event_type": name, **arguments}
    return begins, arguments


def _default_host() -> str:
    import socket

    rank = os.environ.get("LOCAL_RANK")
    return f"{socket.gethostname()}/{rank}" if rank else socket.gethostname()


def _open_log(folder: str | os.PathLike[str] | None, job_name: str, host: str) -> RecordLog | None:
    where = os.fspath(folder) if folder is not None else os.environ.get(RUN_DIR)
    if not where:
        logger.warning("goodput of %s is not recorded: pass a folder, or set %s", job_name, RUN_DIR)
        return None
    head = json.dumps({"job_name": job_name, "host": host})[:-1]

    def render(record: Any) -> bytes:
        if type(record) is tuple:
            text = f'{head}, "pid": {os.getpid()}, "step_count": {record[0]}, "step_start_time": {record[1]!r}}}\n'
            return text.encode()
        return json.dumps(record, default=str).encode() + b"\n"

    return RecordLog(open_destination(where, STEM, exclusive=True), render)
