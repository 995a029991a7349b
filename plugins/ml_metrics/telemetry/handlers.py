"""Where metric streams go: nowhere, the console, JSON lines in the run folder, TensorBoard, or several of them."""

from __future__ import annotations

import abc
import json
import logging
import math
import os
from collections import defaultdict
from functools import lru_cache
from itertools import count
from typing import Any, NamedTuple

from ml_metrics.telemetry.destinations import RUN_DIR, open_destination
from ml_metrics.telemetry.event_file import ScalarWriter
from ml_metrics.telemetry.record_log import RecordLog

logger = logging.getLogger(__name__)

STEM = "telemetry"
_GIANT = 2**1023

_logs: dict[str, RecordLog] = {}
"""One log for each folder, however many handlers and streams there are: no file is opened twice."""


class MetricData(NamedTuple):
    """One value of one metric."""

    timestamp: float
    group_name: str
    name: str
    value: float
    """As the program gave it; `number` says what a handler makes of it."""


class MetricHandler(abc.ABC):
    """Takes values to where they should be."""

    @abc.abstractmethod
    def emit(self, metric_data: MetricData) -> None:
        """Take one value."""


class NullMetricHandler(MetricHandler):
    """The default: values go nowhere."""

    def emit(self, metric_data: MetricData) -> None:
        """Do nothing."""


class ConsoleMetricHandler(MetricHandler):
    """Prints `[timestamp][group]: name=value`, one line a value."""

    def emit(self, metric_data: MetricData) -> None:
        """Print it. What would break the line is escaped."""
        line = f"[{metric_data.timestamp}][{metric_data.group_name}]: {metric_data.name}={metric_data.value}"
        print(line if line.isprintable() else line.encode("unicode_escape").decode())  # noqa: T201  (its purpose)


class QueuedMetricHandler(MetricHandler):
    """Puts values into the queue of a log. Nothing is raised, also into a program that does not expect it.

    torch.distributed.elastic hands its own metrics to a handler without protection.
    """

    def __init__(self, folder: str) -> None:
        self._told = False
        if not folder:
            self._tell("telemetry has no place to go, and is lost: give a folder, or set %s", RUN_DIR)

    def emit(self, metric_data: MetricData) -> None:
        """Queue it. What is no number is left out."""
        try:
            value = number(metric_data.value)
        except Exception as error:  # noqa: BLE001  (whatever an array library raises)
            self._tell("%s leaves out %s/%s: %s", type(self).__name__, metric_data.group_name, metric_data.name, error)
            return
        self.queue(metric_data, value)

    @abc.abstractmethod
    def queue(self, metric_data: MetricData, value: float) -> None:
        """Put a value into the queue."""

    @abc.abstractmethod
    def flush(self) -> None:
        """Wait until everything is written."""

    def _tell(self, message: str, *what: object) -> None:
        """Say the first trouble; a stream of values may well have the same one a million times."""
        if not self._told:
            self._told = True
            logger.warning(message, *what)


class JsonLinesMetricHandler(QueuedMetricHandler):
    """Appends to `telemetry.jsonl` in the run folder, from a thread of its own.

    Args:
        folder: A path or `gs://bucket/folder`. Default: the environment variable `ML_METRICS_RUN_DIR`.
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        where = os.fspath(folder) if folder is not None else os.environ.get(RUN_DIR, "")
        super().__init__(where)
        self._log = _log_of(where) if where else None

    def queue(self, metric_data: MetricData, value: float) -> None:
        """Put a value into the queue."""
        if self._log is not None:
            self._log.put((metric_data.timestamp, metric_data.group_name, metric_data.name, value))

    def flush(self) -> None:
        """Wait until everything is written."""
        if self._log is not None:
            self._log.flush()


class TensorBoardMetricHandler(QueuedMetricHandler):
    """Writes scalars `<group>/<name>` that TensorBoard shows; the step is how many values the metric had before.

    Args:
        folder: A path or `gs://bucket/folder`. Default: `telemetry` in the folder that `ML_METRICS_RUN_DIR` names.
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        run_folder = os.environ.get(RUN_DIR, "")
        where = os.fspath(folder) if folder is not None else run_folder and f"{run_folder.rstrip('/')}/{STEM}"
        super().__init__(where)
        self._writer = ScalarWriter(where) if where else None
        self._steps: defaultdict[str, count[int]] = defaultdict(count)

    def queue(self, metric_data: MetricData, value: float) -> None:
        """Put a value into the queue."""
        if self._writer is not None:
            tag = f"{metric_data.group_name}/{metric_data.name}"
            self._writer.add_scalar(tag, value, next(self._steps[tag]), metric_data.timestamp)

    def flush(self) -> None:
        """Wait until everything is written."""
        if self._writer is not None:
            self._writer.flush()


class FanOutMetricHandler(MetricHandler):
    """Hands every value to several handlers. One that fails does not keep it from the others."""

    def __init__(self, *handlers: MetricHandler) -> None:
        self.handlers = handlers

    def emit(self, metric_data: MetricData) -> None:
        """Hand it on; what went wrong is raised when all have had it."""
        errors = []
        for handler in self.handlers:
            try:
                handler.emit(metric_data)
            except Exception as error:  # noqa: BLE001  (the others come first)
                errors.append(f"{type(handler).__name__}: {error}")
        if errors:
            raise RuntimeError("; ".join(errors))


def number(value: Any) -> float:
    """What a value is as a number: a bool is 0 or 1, an array's or tensor's scalar its value, text is an error."""
    if type(value) is float or (type(value) is int and -_GIANT < value < _GIANT):
        return value
    if isinstance(value, str | bytes):
        raise TypeError(f"{value!r} is text, not a number")
    try:
        return float(value)
    except OverflowError:  # a whole number beyond all floats
        return math.inf if value > 0 else -math.inf


def _log_of(folder: str) -> RecordLog:
    log = _logs.get(folder)  # without a lock, which a fork might leave locked for ever in the child
    return log if log is not None else _logs.setdefault(folder, RecordLog(open_destination(folder, STEM), _render))


def _render(record: tuple[float, str, str, float]) -> bytes:
    timestamp, group, name, value = record
    shown = json.dumps(value) if math.isfinite(value) else "null"
    line = f'{{"timestamp": {timestamp!r}, "group": {_quoted(group)}, "name": {_quoted(name)}, "value": {shown}}}\n'
    return line.encode()


@lru_cache(maxsize=4096)
def _quoted(text: str) -> str:
    return json.dumps(str(text))
