"""How a job's time was spent: goodput, badput by bucket, and the regularity of its steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ml_metrics.first_use import imported_on_first_use
from ml_metrics.goodput.time_buckets import Bucket, GoodputType

if TYPE_CHECKING:
    from ml_metrics.goodput.calculator import GoodputCalculator, NoGoodputError
    from ml_metrics.goodput.monitor import GoodputMonitor
    from ml_metrics.goodput.report import GoodputReport
    from ml_metrics.goodput.report_builder import measure
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

# Imported on first use: a run without a goodput log needs none of it, nor numpy.
_HOMES = {
    "GoodputCalculator": "ml_metrics.goodput.calculator",
    "GoodputMonitor": "ml_metrics.goodput.monitor",
    "GoodputRecorder": "ml_metrics_telemetry.recorder",
    "GoodputReport": "ml_metrics.goodput.report",
    "NoGoodputError": "ml_metrics.goodput.calculator",
    "measure": "ml_metrics.goodput.report_builder",
}
__getattr__ = imported_on_first_use(__name__, _HOMES)
