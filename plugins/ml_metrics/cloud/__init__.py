"""Adapters for Google Cloud: Logging and Monitoring for goodput and memory, and Secret Manager."""

from ml_metrics.cloud.cloud_logging import CloudLogger
from ml_metrics.cloud.cloud_monitoring import CloudMonitoring, GCPOptions

__all__ = ["CloudLogger", "CloudMonitoring", "GCPOptions"]
