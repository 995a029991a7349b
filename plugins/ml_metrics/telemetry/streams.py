"""Metric streams: `get_stream(group).add_value(name, value)`, and where the values go.

The names and the behaviour are those of torch.distributed.elastic.metrics, with three differences: a handler that is
configured later also serves streams that were made earlier; a handler that fails is told once and never reaches
the program; durations are floats.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

from ml_metrics.telemetry.handlers import MetricData, NullMetricHandler

if TYPE_CHECKING:
    from collections.abc import Callable

    from ml_metrics.telemetry.handlers import MetricHandler

P = ParamSpec("P")
R = TypeVar("R")

logger = logging.getLogger(__name__)

DEFAULT_GROUP = "torchelastic"

_default: MetricHandler = NullMetricHandler()
_of_group: dict[str, MetricHandler] = {}
_broken: set[int] = set()


@dataclass(frozen=True, slots=True)
class MetricStream:
    """The metrics of one group."""

    group_name: str

    def add_value(self, name: str, value: float) -> None:
        """Hand one value to the group's handler. Whatever the handler does, the program goes on."""
        handler = _of_group.get(self.group_name, _default)
        try:
            handler.emit(MetricData(time.time(), self.group_name, name, value))
        except Exception as error:  # noqa: BLE001  (a broken handler must not break training)
            _tell_once(handler, error)


def get_stream(group: str) -> MetricStream:
    """The stream of a group."""
    return MetricStream(group)


def configure(handler: MetricHandler, group: str | None = None) -> None:
    """Set the handler of a group, or of all groups that have none of their own."""
    global _default  # noqa: PLW0603  (one configuration a process, as in logging)
    _broken.discard(id(handler))
    if group is None:
        _default = handler
    else:
        _of_group[group] = handler


def put_metric(metric_name: str, metric_value: float, metric_group: str = DEFAULT_GROUP) -> None:
    """Add one value to the stream of a group."""
    get_stream(metric_group).add_value(metric_name, metric_value)


def publish_metric(metric_group: str, metric_name: str, metric_value: float) -> None:
    """The older spelling of `put_metric` in torch.distributed.elastic.metrics."""
    put_metric(metric_name, metric_value, metric_group)


def get_elapsed_time_ms(start_time_in_seconds: float) -> float:
    """The milliseconds since a moment of `time.time()`."""
    return (time.time() - start_time_in_seconds) * 1000


def prof(fn: Callable[P, R] | None = None, group: str = DEFAULT_GROUP) -> Any:
    """Measure a function, as `@prof` or `@prof(group="my_app")`.

    Every call adds `<name>.duration.ms` and a 1 to `<name>.success` or `<name>.failure`, where the name is
    `Class.method`, or `module.function` for a function of a module.
    """

    def wrap(function: Callable[P, R]) -> Callable[P, R]:
        name = _name_of(function)

        @wraps(function)
        def measured(*args: P.args, **kwargs: P.kwargs) -> R:
            start = time.perf_counter()
            outcome = "failure"
            try:
                result = function(*args, **kwargs)
                outcome = "success"
            finally:
                elapsed = (time.perf_counter() - start) * 1000
                put_metric(f"{name}.{outcome}", 1, group)
                put_metric(f"{name}.duration.ms", elapsed, group)
            return result

        return cast("Callable[P, R]", measured)

    return wrap(fn) if fn is not None else wrap


def _name_of(function: Callable[..., Any]) -> str:
    qualified = function.__qualname__
    if "." in qualified:
        return qualified
    module = (function.__module__ or "").rpartition(".")[2]
    return f"{module}.{qualified}" if module else qualified


def _tell_once(handler: MetricHandler, error: Exception) -> None:
    if id(handler) not in _broken:
        _broken.add(id(handler))
        logger.warning("%s failed and its values are lost until it works again: %s", type(handler).__name__, error)
