"""How a job's time was spent: goodput, badput by bucket, and the regularity of its steps."""

from ml_metrics.goodput.calculator import GoodputCalculator, NoGoodputError
from ml_metrics.goodput.monitor import GoodputMonitor
from ml_metrics.goodput.report import GoodputReport
from ml_metrics.goodput.report_builder import measure
from ml_metrics.goodput.time_buckets import Bucket, GoodputType
from ml_metrics_telemetry.recorder import GoodputRecorder

BadputType = Bucket
"""The older library's name for buckets."""

__all__ = [
    "BadputType",
    "Bucket",
    "GoodputCalculator",
    "GoodputMonitor",
    "GoodputRecorder",
    "GoodputReport",
    "GoodputType",
    "NoGoodputError",
    "measure",
]
