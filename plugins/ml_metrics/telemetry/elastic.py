"""The remaining names of torch.distributed.elastic.metrics: older spellings and no-ops."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from ml_metrics.telemetry.streams import DEFAULT_GROUP, get_stream, measured, put_metric

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

getStream = get_stream  # noqa: N816  (torch's name)


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
