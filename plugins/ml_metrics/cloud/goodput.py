"""What a test file asks of Google Cloud: where its goodput is read from, and where else it goes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ml_metrics.cloud.cloud_logging import CloudLogger
from ml_metrics.cloud.cloud_monitoring import CloudMonitoring, GCPOptions
from ml_metrics.errors import MlMetricsError
from ml_metrics.goodput.report import Part

if TYPE_CHECKING:
    from ml_metrics.config.definition import TestDefinition
    from ml_metrics.goodput.report import GoodputReport


def goodput_log(test: TestDefinition, job_name: str) -> CloudLogger | None:
    """The log that a test names in place of the files of its run folder."""
    asked = test.goodput.cloud_logging
    if asked is None:
        return None
    job = asked.job_name or job_name
    return CloudLogger(job, asked.log_name or f"goodput_{job}", asked.project_id)


def exported(test: TestDefinition, report: GoodputReport, job_name: str) -> GoodputReport:
    """Send a report where a test wants it, too. That this fails is a warning: the run itself is well."""
    asked = test.goodput.gcp_options
    if asked is None:
        return report
    options = GCPOptions(**{**asked.model_dump(), "acc_type": asked.acc_type or test.accelerator.name})
    try:
        CloudMonitoring(report.job_name or job_name, options).write(report, set(Part))
    except MlMetricsError as error:
        return replace(report, warnings=(*report.warnings, f"not sent: {error}"))
    return report
