"""Telemetry for workloads. It needs only the standard library, so it is safe in any training image."""

from ml_metrics.telemetry.handlers import (
    ConsoleMetricHandler,
    FanOutMetricHandler,
    JsonLinesMetricHandler,
    MetricData,
    MetricHandler,
    NullMetricHandler,
    TensorBoardMetricHandler,
)
from ml_metrics.telemetry.recorder import GoodputRecorder
from ml_metrics.telemetry.streams import (
    MetricsConfig,
    MetricStream,
    configure,
    get_elapsed_time_ms,
    get_stream,
    getStream,
    initialize_metrics,
    prof,
    profile,
    publish_metric,
    put_metric,
)

__all__ = [
    "ConsoleMetricHandler",
    "FanOutMetricHandler",
    "GoodputRecorder",
    "JsonLinesMetricHandler",
    "MetricData",
    "MetricHandler",
    "MetricStream",
    "MetricsConfig",
    "NullMetricHandler",
    "TensorBoardMetricHandler",
    "configure",
    "getStream",
    "get_elapsed_time_ms",
    "get_stream",
    "initialize_metrics",
    "prof",
    "profile",
    "publish_metric",
    "put_metric",
]
