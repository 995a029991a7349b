"""Which tests passed with an image."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ml_metrics.model import FAILED_TASKS, JobStatus, Outcome
from ml_metrics.warehouse.deployment import of_deployment

if TYPE_CHECKING:
    from datetime import datetime

    from ml_metrics.warehouse.database import Database

NEWEST_OF_IMAGE = f"""
SELECT test_name, job_status, verdict, failed_tasks
FROM (
  SELECT job.test_name, job.job_status, job.verdict, failed.metadata_value AS failed_tasks,
    ROW_NUMBER() OVER (PARTITION BY job.test_name ORDER BY job.timestamp DESC, job.uuid DESC) AS place
  FROM job_history AS job
  JOIN metadata_history AS image ON image.uuid = job.uuid
  LEFT JOIN (
    SELECT uuid, metadata_value FROM metadata_history
    WHERE metadata_key = '{FAILED_TASKS}' AND timestamp >= :since
  ) AS failed ON failed.uuid = job.uuid
  WHERE {of_deployment("job")} AND job.timestamp >= :since AND job.trial IS NULL
    AND job.run_id IS NOT NULL AND NOT job.run_id LIKE 'import%'
    AND image.metadata_key = 'image_digest' AND image.metadata_value LIKE :image AND image.timestamp >= :since
) AS ranked
WHERE place = 1
ORDER BY test_name
"""  # noqa: S608  (constants)


def green_tests(database: Database, digest: str, since: datetime) -> frozenset[str]:
    """Return the tests whose newest run with an image of this digest passed. Trials and imported runs do not count.

    A run passed as its gate sees it: the workload, the verdict, and every task before.
    """
    rows = database.query(NEWEST_OF_IMAGE, image=f"%{digest}", since=since)
    return frozenset(
        row["test_name"]
        for row in rows
        if row["job_status"] == JobStatus.SUCCESS and row["verdict"] == Outcome.PASS and not row["failed_tasks"]
    )
