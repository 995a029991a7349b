"""How a job's time was spent: goodput, badput by bucket, and the regularity of its steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ml_metrics.core.lazy import imported_on_first_use
from ml_metrics.measure.goodput.buckets import Bucket, GoodputType

if TYPE_CHECKING:
    from ml_metrics.measure.goodput.build import measure
    from ml_metrics.measure.goodput.calculator import GoodputCalculator, NoGoodputError
    from ml_metrics.measure.goodput.monitor import GoodputMonitor
    from ml_metrics.measure.goodput.report import GoodputReport
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
    "GoodputCalculator": "ml_metrics.measure.goodput.calculator",
    "GoodputMonitor": "ml_metrics.measure.goodput.monitor",
    "GoodputRecorder": "ml_metrics_telemetry.recorder",
    "GoodputReport": "ml_metrics.measure.goodput.report",
    "NoGoodputError": "ml_metrics.measure.goodput.calculator",
    "measure": "ml_metrics.measure.goodput.build",
}
__getattr__ = imported_on_first_use(__name__, _HOMES)
