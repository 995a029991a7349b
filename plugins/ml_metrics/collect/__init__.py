"""Collecting the metrics of a run: one module for each kind of source."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ml_metrics.collect.collected import Collected
    from ml_metrics.collect.collector import collect_run
    from ml_metrics.collect.environment import Environment
    from ml_metrics.collect.source import Found, Request

__all__ = ["Collected", "Environment", "Found", "Request", "collect_run"]

# Imported on first use: the tasks that only read what was collected need none of the readers, nor numpy.
_HOMES = {
    "Collected": "collected",
    "Environment": "environment",
    "Found": "source",
    "Request": "source",
    "collect_run": "collector",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
