"""Thin adapters for Google's services: Cloud Logging, where goodput entries may lie, and Cloud Monitoring."""

from ml_metrics.cloud.cloud_logging import CloudLogger
from ml_metrics.cloud.cloud_monitoring import CloudMonitoring, GCPOptions

__all__ = ["CloudLogger", "CloudMonitoring", "GCPOptions"]
