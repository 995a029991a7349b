"""Where a job's time went: goodput, badput by bucket, and how regular its steps were."""

from ml_metrics.goodput.measure import measure
from ml_metrics.goodput.report import GoodputReport

__all__ = ["GoodputReport", "measure"]
