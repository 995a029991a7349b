"""Where a job's time went: goodput, badput by bucket, and how regular its steps were."""

from ml_metrics.goodput.calculator import GoodputCalculator, NoGoodputError
from ml_metrics.goodput.measure import measure
from ml_metrics.goodput.monitor import GoodputMonitor
from ml_metrics.goodput.report import GoodputReport
from ml_metrics.goodput.time_buckets import Bucket, GoodputType
from ml_metrics.telemetry.recorder import GoodputRecorder

BadputType = Bucket
"""The name of the buckets in ml-goodput-measurement."""

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
