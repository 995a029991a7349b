"""Collecting the metrics of a run: one module for each kind of source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ml_metrics.core.lazy import imported_on_first_use

if TYPE_CHECKING:
    from ml_metrics.measure.collect import collect_run
    from ml_metrics.measure.collected import Collected, Environment
    from ml_metrics.measure.source import Found, Request


__all__ = ["Collected", "Environment", "Found", "Request", "collect_run"]

# Imported on first use: the tasks that only read what was collected need none of the readers, nor numpy.
_HOMES = {
    "Collected": "ml_metrics.measure.collected",
    "Environment": "ml_metrics.measure.collected",
    "Found": "ml_metrics.measure.source",
    "Request": "ml_metrics.measure.source",
    "collect_run": "ml_metrics.measure.collect",
}
__getattr__ = imported_on_first_use(__name__, _HOMES)
