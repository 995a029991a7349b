"""The task that aggregates what the workload wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ml_metrics import steps
from ml_metrics.operators.task import TestTask

if TYPE_CHECKING:
    from collections.abc import Mapping


class CollectMetrics(TestTask):
    """Read every source of the run folder and write `metrics.json`."""

    def perform(self, context: Mapping[str, Any]) -> str:
        """Collect, and return a line for people."""
        collected = steps.collect(self.test, self.folder(context))
        for warning in collected.warnings:
            self.log.warning("%s", warning)
        for metric in collected.metrics:
            self.log.info("%s = %.6g", metric.name, metric.value)
        return f"{len(collected.metrics)} metrics from {collected.files} files"
