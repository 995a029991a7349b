"""The task that writes the run into the warehouse."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowSkipException

from ml_metrics import steps
from ml_metrics.connections import warehouse
from ml_metrics.operators.task import TestTask, run_of

if TYPE_CHECKING:
    from collections.abc import Mapping


class LoadHistory(TestTask):
    """Write one row of `job_history` and one row of `metric_history` for each metric, exactly once."""

    def perform(self, context: Mapping[str, Any]) -> str:
        """Load, and return a line for people."""
        if not self.test.metric_collection_config.write_to_bigquery:
            raise AirflowSkipException("the test file says `write_to_bigquery: false`: nothing is recorded")
        run = run_of(self.test.name, context)
        with warehouse() as open_warehouse:
            record = steps.load(self.test, run, self.folder(context), open_warehouse)
        self.log.info("job_history: run %s is %s", run.key, record.job.job_status)
        return f"1 job row and {len(record.metrics)} metric rows for run {run.key}"
