"""Goodput from and to Google Cloud, for a test that asks for it: without a client or numpy for one that does not."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ml_metrics.core.errors import MlMetricsError

if TYPE_CHECKING:
    from ml_metrics.config.definition import TestDefinition
    from ml_metrics.measure.cloud.logging import CloudLogger
    from ml_metrics.measure.goodput.report import GoodputReport


def goodput_log(test: TestDefinition, job_name: str) -> CloudLogger | None:
    """None if the test uses files in its run folder instead."""
    options = test.goodput.cloud_logging
    if options is None:
        return None
    from ml_metrics.measure.cloud.logging import CloudLogger

    job = options.job_name or job_name
    return CloudLogger(job, options.log_name or f"goodput_{job}", options.project_id)


def exported(test: TestDefinition, report: GoodputReport, job_name: str) -> GoodputReport:
    """Send a report if the test has it enabled. An error is added as a warning: it does not fail the run."""
    configured = test.goodput.gcp_options
    if configured is None:
        return report
    from ml_metrics.measure.cloud.monitoring import CloudMonitoring, GCPOptions
    from ml_metrics.measure.goodput.report import Part

    options = GCPOptions(**{**configured.model_dump(), "acc_type": configured.acc_type or test.accelerator.name})
    try:
        CloudMonitoring(report.job_name or job_name, options).write(report, set(Part))
    except MlMetricsError as error:
        return replace(report, warnings=(*report.warnings, f"not sent: {error}"))
    return report
