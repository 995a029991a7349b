"""Adapters for Google Cloud: Logging and Monitoring for goodput and memory, and Secret Manager."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ml_metrics.first_use import imported_on_first_use

if TYPE_CHECKING:
    from ml_metrics.cloud.cloud_logging import CloudLogger
    from ml_metrics.cloud.cloud_monitoring import CloudMonitoring, GCPOptions

__all__ = ["CloudLogger", "CloudMonitoring", "GCPOptions"]

# Imported on first use: a task that asks only whether the cloud is used needs neither, nor numpy.
_HOMES = {
    "CloudLogger": "ml_metrics.cloud.cloud_logging",
    "CloudMonitoring": "ml_metrics.cloud.cloud_monitoring",
    "GCPOptions": "ml_metrics.cloud.cloud_monitoring",
}
__getattr__ = imported_on_first_use(__name__, _HOMES)
