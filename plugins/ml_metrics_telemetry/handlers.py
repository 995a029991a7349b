"""Handlers of metric streams: none, console, JSON lines in the run folder, TensorBoard, or several of them."""

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

from ml_metrics_telemetry.destinations import RUN_DIR, open_destination
from ml_metrics_telemetry.event_file import open_scalar_log
from ml_metrics_telemetry.record_log import RecordLog

logger = logging.getLogger(__name__)

STEM = "telemetry"
_MAX_INT = 2**1023

_logs: dict[str, RecordLog] = {}
"""One log per folder, shared by all handlers and streams, so that no file is opened twice."""


class MetricData(NamedTuple):
    """One value of one metric."""

    timestamp: float
    group_name: str
    name: str
    value: float
    """The value as passed by the program. Handlers convert it with `number`."""


class MetricHandler(abc.ABC):
    """Receives the values of metric streams."""

    @abc.abstractmethod
    def emit(self, metric_data: MetricData) -> None:
        """Handle one value."""


class NullMetricHandler(MetricHandler):
    """The default handler, which ignores all values."""

    def emit(self, metric_data: MetricData) -> None:
        """Do nothing."""


class ConsoleMetricHandler(MetricHandler):
    """Prints one line per value: `[timestamp][group]: name=value`."""

    def emit(self, metric_data: MetricData) -> None:
        """Print a value. Characters that would break the line are escaped."""
        line = f"[{metric_data.timestamp}][{metric_data.group_name}]: {metric_data.name}={metric_data.value}"
        print(line if line.isprintable() else line.encode("unicode_escape").decode())  # noqa: T201  (its purpose)


class QueuedMetricHandler(MetricHandler):
    """Puts values into the queue of a log, and never raises.

    torch.distributed.elastic calls handlers without catching errors.
    """

    def __init__(self, log: RecordLog | None) -> None:
        self._log = log
        self._warned = False
        if log is None:
            self._warn_once("telemetry has no folder and is lost: pass one, or set %s", RUN_DIR)

    def emit(self, metric_data: MetricData) -> None:
        """Queue a value. Values that are not numbers are dropped with a warning."""
        if self._log is None:
            return
        try:
            value = number(metric_data.value)
        except Exception as error:  # noqa: BLE001  (array libraries raise any error)
            self._warn_once(
                "%s leaves out %s/%s: %s", type(self).__name__, metric_data.group_name, metric_data.name, error
            )
            return
        self._log.put(self.record(metric_data, value))

    @abc.abstractmethod
    def record(self, metric_data: MetricData, value: float) -> Any:
        """Return the record of a value in the queue."""

    def flush(self) -> None:
        """Wait until everything is written."""
        if self._log is not None:
            self._log.flush()

    def _warn_once(self, message: str, *arguments: object) -> None:
        """Log the first problem only: a stream may have the same one a million times."""
        if not self._warned:
            self._warned = True
            logger.warning(message, *arguments)


class JsonLinesMetricHandler(QueuedMetricHandler):
    """Appends to `telemetry.jsonl` in the run folder, from a background thread.

    Args:
        folder: A path or `gs://bucket/folder`. Default: the environment variable `ML_METRICS_RUN_DIR`.
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        where = os.fspath(folder) if folder is not None else os.environ.get(RUN_DIR, "")
        super().__init__(_log_of(where) if where else None)

    def record(self, metric_data: MetricData, value: float) -> tuple[float, str, str, float]:
        """Return the content of a line."""
        return metric_data.timestamp, metric_data.group_name, metric_data.name, value


class TensorBoardMetricHandler(QueuedMetricHandler):
    """Writes scalars `<group>/<name>` for TensorBoard. The step is the number of earlier values of the metric.

    Args:
        folder: A path or `gs://bucket/folder`. Default: `telemetry` in the folder given by `ML_METRICS_RUN_DIR`.
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        run_folder = os.environ.get(RUN_DIR, "")
        where = os.fspath(folder) if folder is not None else run_folder and f"{run_folder.rstrip('/')}/{STEM}"
        super().__init__(open_scalar_log(where) if where else None)
        self._steps: defaultdict[str, count[int]] = defaultdict(count)

    def record(self, metric_data: MetricData, value: float) -> tuple[str, float, int, float]:
        """Return a scalar with the next step of its tag."""
        tag = f"{metric_data.group_name}/{metric_data.name}"
        return tag, value, next(self._steps[tag]), metric_data.timestamp


class FanOutMetricHandler(MetricHandler):
    """Passes every value to several handlers. All of them get it, even if one fails."""

    def __init__(self, *handlers: MetricHandler) -> None:
        self.handlers = handlers

    def emit(self, metric_data: MetricData) -> None:
        """Pass a value on. Errors are raised after all handlers were called."""
        errors = []
        for handler in self.handlers:
            try:
                handler.emit(metric_data)
            except Exception as error:  # noqa: BLE001  (raised below, after the other handlers)
                errors.append(f"{type(handler).__name__}: {error}")
        if errors:
            raise RuntimeError("; ".join(errors))


def number(value: Any) -> float:
    """Convert a value to a number: a bool to 0 or 1, a scalar of an array library to its value. Raises for text."""
    if type(value) is float or (type(value) is int and -_MAX_INT < value < _MAX_INT):
        return value
    if isinstance(value, (str, bytes)):
        raise TypeError(f"{value!r} is text, not a number")
    try:
        return float(value)
    except OverflowError:  # an integer that is too large for a float
        return math.inf if value > 0 else -math.inf


def _log_of(folder: str) -> RecordLog:
    log = _logs.get(folder)  # no lock: a fork could leave it locked forever in the child
    return log if log is not None else _logs.setdefault(folder, RecordLog(open_destination(folder, STEM), _render))


def _render(record: tuple[float, str, str, float]) -> bytes:
    timestamp, group, name, value = record
    shown = json.dumps(value) if math.isfinite(value) else "null"
    line = f'{{"timestamp": {timestamp!r}, "group": {_quoted(group)}, "name": {_quoted(name)}, "value": {shown}}}\n'
    return line.encode()


@lru_cache(maxsize=4096)
def _quoted(text: str) -> str:
    return json.dumps(str(text))
