"""Metric streams: `get_stream(group).add_value(name, value)`, and the handlers that receive the values.

Names and behaviour are those of torch.distributed.elastic.metrics, with three differences: a handler that is configured
later also serves existing streams; a handler that fails is logged once and never raises in the program; durations are
floats.
"""

from __future__ import annotations

import logging
import time
from contextlib import contextmanager
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from ml_metrics_telemetry.handlers import MetricData, NullMetricHandler

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import TypeVar

    from ml_metrics_telemetry.handlers import MetricHandler

    Function = TypeVar("Function", bound=Callable[..., Any])

logger = logging.getLogger(__name__)

DEFAULT_GROUP = "torchelastic"

_default: MetricHandler = NullMetricHandler()
_of_group: dict[str, MetricHandler] = {}
_broken: dict[int, MetricHandler] = {}
"""Handlers that failed and were reported. They are kept alive so that their ids stay unique."""


class MetricStream(NamedTuple):  # a frozen dataclass would import `inspect`, half of the time of the whole import
    """The metrics of one group.

    Args:
        group_name: The group.
        handler: The handler of this stream. Default: the current handler of the group.
    """

    group_name: str
    handler: MetricHandler | None = None

    def add_value(self, metric_name: str, metric_value: float) -> None:
        """Pass one value to the handler. Errors of the handler are logged, not raised."""
        handler = self.handler or _of_group.get(self.group_name, _default)
        try:
            handler.emit(MetricData(time.time(), self.group_name, metric_name, metric_value))
        except Exception as error:  # noqa: BLE001  (a broken handler must not break training)
            _warn_once(handler, error)


def get_stream(group: str) -> MetricStream:
    """Return the stream of a group."""
    return MetricStream(group)


getStream = get_stream  # noqa: N816  (torch's name)


def configure(handler: MetricHandler, group: str | None = None) -> None:
    """Set the handler of a group, or the default of all groups without their own."""
    global _default  # noqa: PLW0603  (one configuration per process, as in logging)
    _broken.pop(id(handler), None)
    if group is None:
        _default = handler
    else:
        _of_group[group] = handler


def put_metric(metric_name: str, metric_value: float, metric_group: str = DEFAULT_GROUP) -> None:
    """Add one value to the stream of a group."""
    get_stream(metric_group).add_value(metric_name, metric_value)


def prof(fn: Callable[..., Any] | None = None, group: str = DEFAULT_GROUP) -> Any:
    """Measure a function, as `@prof` or `@prof(group="my_app")`. Coroutines are measured to their end.

    Every call adds `<name>.duration.ms` and a 1 to `<name>.success` or `<name>.failure`. The name is `Class.method`, or
    `module.function` for a function of a module.
    """
    return measured(fn, _name_of(fn), group) if fn is not None else partial(prof, group=group)


def measured(function: Function, name: str, group: str) -> Function:
    """Return the function with its duration and result recorded on every call."""
    from inspect import iscoroutinefunction

    @contextmanager
    def measure() -> Iterator[None]:
        start = time.perf_counter()
        outcome = "failure"
        try:
            yield
            outcome = "success"
        finally:
            elapsed = (time.perf_counter() - start) * 1000
            put_metric(f"{name}.{outcome}", 1, group)
            put_metric(f"{name}.duration.ms", elapsed, group)

    if iscoroutinefunction(function):

        @wraps(function)
        async def measured_coroutine(*args: Any, **kwargs: Any) -> Any:
            with measure():
                return await function(*args, **kwargs)

        return cast("Function", measured_coroutine)

    @wraps(function)
    def measured_function(*args: Any, **kwargs: Any) -> Any:
        with measure():
            return function(*args, **kwargs)

    return cast("Function", measured_function)


class MetricsConfig:
    """Parameters of a metrics service. They are ignored."""

    def __init__(self, params: Mapping[str, str] | None = None) -> None:
        self.params = dict(params or {})


def initialize_metrics(cfg: MetricsConfig | None = None) -> None:
    """Do nothing: `configure` sets the handlers."""


def publish_metric(metric_group: str, metric_name: str, metric_value: float) -> None:
    """Add one value, like `put_metric`."""
    put_metric(metric_name, metric_value, metric_group)


def profile(group: str | None = None) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Measure a function under its bare name, as `@profile("my_app")`. `prof` is the newer version."""
    return lambda function: measured(function, function.__name__, group or DEFAULT_GROUP)


def get_elapsed_time_ms(start_time_in_seconds: float) -> float:
    """Return the milliseconds since a `time.time()`."""
    return (time.time() - start_time_in_seconds) * 1000


def _name_of(function: Callable[..., Any]) -> str:
    qualified = function.__qualname__
    if "." in qualified:
        return qualified
    module = (function.__module__ or "").rpartition(".")[2]
    return f"{module}.{qualified}" if module else qualified


def _warn_once(handler: MetricHandler, error: Exception) -> None:
    if id(handler) not in _broken:
        _broken[id(handler)] = handler
        logger.warning("%s failed and its values are lost until it works again: %s", type(handler).__name__, error)
