"""Telemetry for training programs. It needs Python 3.9 and its standard library, so it is safe in any training image.

The integrations with frameworks are modules of their own, which nothing here imports: `ml_metrics_telemetry.keras`,
`.lightning`, `.huggingface`, `.jax`, `.maxtext` and `.axlearn`.
"""

from ml_metrics_telemetry.handlers import (
    ConsoleMetricHandler,
    FanOutMetricHandler,
    JsonLinesMetricHandler,
    MetricData,
    MetricHandler,
    NullMetricHandler,
    TensorBoardMetricHandler,
)
from ml_metrics_telemetry.local_files import local_folder
from ml_metrics_telemetry.recorder import GoodputRecorder
from ml_metrics_telemetry.scalars import ScalarWriter
from ml_metrics_telemetry.streams import (
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
from ml_metrics_telemetry.training import Training

__version__ = "0.2.0"
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
    "ScalarWriter",
    "TensorBoardMetricHandler",
    "Training",
    "configure",
    "getStream",
    "get_elapsed_time_ms",
    "get_stream",
    "initialize_metrics",
    "local_folder",
    "prof",
    "profile",
    "publish_metric",
    "put_metric",
]
