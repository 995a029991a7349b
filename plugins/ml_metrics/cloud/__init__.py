"""Adapters for Google Cloud: Logging and Monitoring for goodput and memory, and Secret Manager."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

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


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
