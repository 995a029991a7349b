"""Collecting the metrics of a run: one module for each kind of source."""

from ml_metrics.collect.collector import Collected, collect_run
from ml_metrics.collect.environment import Environment
from ml_metrics.collect.source import Found, Request

__all__ = ["Collected", "Environment", "Found", "Request", "collect_run"]
