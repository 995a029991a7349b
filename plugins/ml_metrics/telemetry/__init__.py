"""What runs inside the workload. The standard library only: safe in any training image."""

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
    MetricStream,
    configure,
    get_elapsed_time_ms,
    get_stream,
    prof,
    publish_metric,
    put_metric,
)

getStream = get_stream  # noqa: N816  (the name in torch.distributed.elastic.metrics)

__all__ = [
    "ConsoleMetricHandler",
    "FanOutMetricHandler",
    "GoodputRecorder",
    "JsonLinesMetricHandler",
    "MetricData",
    "MetricHandler",
    "MetricStream",
    "NullMetricHandler",
    "TensorBoardMetricHandler",
    "configure",
    "getStream",
    "get_elapsed_time_ms",
    "get_stream",
    "prof",
    "publish_metric",
    "put_metric",
]
