"""Collecting the metrics of a run: one module for each kind of source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ml_metrics.first_use import imported_on_first_use

if TYPE_CHECKING:
    from ml_metrics.collect.collected import Collected
    from ml_metrics.collect.collector import collect_run
    from ml_metrics.collect.environment import Environment
    from ml_metrics.collect.source import Found, Request

__all__ = ["Collected", "Environment", "Found", "Request", "collect_run"]

# Imported on first use: the tasks that only read what was collected need none of the readers, nor numpy.
_HOMES = {
    "Collected": "ml_metrics.collect.collected",
    "Environment": "ml_metrics.collect.environment",
    "Found": "ml_metrics.collect.source",
    "Request": "ml_metrics.collect.source",
    "collect_run": "ml_metrics.collect.collector",
}
__getattr__ = imported_on_first_use(__name__, _HOMES)
