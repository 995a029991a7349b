"""Read the runs of an older system, whose tables have the columns job_name, metric_key and metric_value.

Each table is read once, row by row in any order, into a temporary SQLite file that puts the rows of a run together.
BigQuery bills nothing for that: it is no query.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from contextlib import closing
from datetime import UTC, datetime
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from ml_metrics.errors import WarehouseError
from ml_metrics.model import JobStatus, StoredMetric
from ml_metrics.values import as_utc, finite
from ml_metrics.warehouse.record import JobRow, MetadataRow, RunRecord
from ml_metrics.warehouse.warehouse import open_store, sqlite_address

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy.engine import URL

PAGE_RUNS = 500
"""The runs of one transaction. With their metrics they are far below the 10 MB of a request to BigQuery."""

JOBS = """
SELECT uuid, timestamp, owner, job_name, job_status
FROM job_history
WHERE uuid > :after
ORDER BY uuid
LIMIT :page
"""

METRICS = """
SELECT job_uuid, metric_key, metric_value
FROM metric_history
WHERE job_uuid > :after AND job_uuid <= :last
"""

METADATA = """
SELECT job_uuid, metadata_key, metadata_value
FROM metadata_history
WHERE job_uuid > :after AND job_uuid <= :last
"""

STATUSES = {0: JobStatus.SUCCESS, 1: JobStatus.FAILURE, 2: JobStatus.MISSED}


COLUMNS = {
    "job_history": ("uuid", "timestamp", "owner", "job_name", "job_status"),
    "metric_history": ("job_uuid", "metric_key", "metric_value"),
    "metadata_history": ("job_uuid", "metadata_key", "metadata_value"),
}


NAME = "older-tables"
"""What imported runs are marked with."""


def older_runs(address: str) -> Iterator[list[RunRecord]]:
    """Yield all runs as records, a few hundred at a time. They keep their keys."""
    with TemporaryDirectory(prefix="ml-metrics-import-") as folder:
        copy = f"{folder}/older.db"
        _copy(address, copy)
        yield from _runs_of(sqlite_address(copy))


def _copy(address: str, path: str) -> None:
    """Copy the tables at an address into a SQLite file, with an index for each."""
    source = open_store(address, create=False)
    try:
        with closing(sqlite3.connect(path)) as copy, copy:
            for table, columns in COLUMNS.items():
                copy.execute(f"CREATE TABLE {table} ({', '.join(columns)})")
                places = ", ".join("?" * len(columns))
                rows = (tuple(map(_stored, row)) for row in source.scan(table, columns))
                copy.executemany(f"INSERT INTO {table} VALUES ({places})", rows)  # noqa: S608  (names of our own)
                copy.execute(f"CREATE INDEX {table}_by_run ON {table} ({columns[0]})")
    finally:
        source.close()


def _stored(value: Any) -> Any:
    return value.isoformat(sep=" ") if isinstance(value, datetime) else value


def _runs_of(address: URL) -> Iterator[list[RunRecord]]:
    store = open_store(address, create=False)
    try:
        after = ""
        while jobs := store.rows(JOBS, {"after": after, "page": PAGE_RUNS}):
            span = {"after": after, "last": jobs[-1]["uuid"]}
            metrics = _by_run(store.rows(METRICS, span))
            metadata = _by_run(store.rows(METADATA, span))
            # a run that was written twice under one key counts once
            by_key = {job["uuid"]: job for job in jobs}
            yield [_record(job, metrics[key], metadata[key]) for key, job in by_key.items()]
            after = span["last"]
    finally:
        store.close()


def _by_run(rows: list[dict[str, Any]]) -> defaultdict[str, list[dict[str, Any]]]:
    found: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        found[row["job_uuid"]].append(row)
    return found


def _record(job: dict[str, Any], metrics: list[dict[str, Any]], metadata: list[dict[str, Any]]) -> RunRecord:
    if job["job_status"] not in STATUSES:
        raise WarehouseError(f"run {job['uuid']}: job_status is {job['job_status']!r}, not 0, 1 or 2")
    status, stopped, test = STATUSES[job["job_status"]], as_utc(job["timestamp"]), job["job_name"]
    about = {row["metadata_key"]: row["metadata_value"] for row in metadata}
    values = {row["metric_key"]: row["metric_value"] for row in metrics}
    dag = about.get("dag_id")
    row = JobRow(
        uuid=job["uuid"],
        test_name=test,
        test_type="",
        accelerator=about.get("accelerator") or "",
        framework_version="",
        job_status=str(status),
        num_failures=int(status is not JobStatus.SUCCESS),
        job_duration_sec=0,
        timestamp=stopped,
        dag_id=dag,
        run_id=about.get("run_id"),
        owner=job["owner"],
        loaded_at=datetime.now(UTC),
    )
    return RunRecord(
        row,
        tuple(
            StoredMetric(
                row.uuid, stopped, name, finite(value), status, None, test, written_at=stopped, dag_id=dag or test
            )
            for name, value in values.items()
        ),
        tuple(MetadataRow(row.uuid, key, value, stopped) for key, value in about.items()),
    )
