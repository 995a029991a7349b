"""The task that tells where the time of the workload went."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowSkipException

from ml_metrics import steps
from ml_metrics.operators.task import TestTask

if TYPE_CHECKING:
    from collections.abc import Mapping


class MeasureGoodput(TestTask):
    """Read the goodput log of the run folder and write `goodput.json`."""

    def perform(self, context: Mapping[str, Any]) -> str:
        """Measure, and return a line for people."""
        if not self.test.goodput.enabled:
            raise AirflowSkipException("the test file says `goodput: {enabled: false}`")
        report = steps.measure_goodput(self.test, self.folder(context))
        for warning in report.warnings:
            self.log.warning("%s", warning)
        for metric in report.metrics():
            self.log.info("%s = %.6g", metric.name, metric.value)
        return report.summary
