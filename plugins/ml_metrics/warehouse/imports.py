"""Runs of other programs as runs of a test: each once, however often it is imported, and not judged.

An imported run names in its metadata where it is from, and a digest of what was read. A second import leaves a run with
that digest as it is, with the verdicts that it may have by then, and replaces one with another.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from ml_metrics.core.errors import WarehouseError
from ml_metrics.core.model import JobStatus, Run, StoredMetric, Workload
from ml_metrics.core.values import as_utc, finite
from ml_metrics.warehouse.database import OF_DEPLOYMENT
from ml_metrics.warehouse.record import DAY, JobRow, RunRecord, run_record
from ml_metrics.warehouse.runs import IN_SPAN, JOB_COLUMNS, select
from ml_metrics.warehouse.warehouse import open_store

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ml_metrics.measure.histories import PastRun
    from ml_metrics.warehouse.warehouse import Warehouse


SOURCE = "imported_from"
CONTENT = "imported_content"
"""The keys of metadata that every imported run has."""
RUN_ID = "import__"
"""The prefix of the run id of an imported run."""
PAGE_RUNS = 200
PAGE_METRICS = 5_000
"""The most of one transaction: with their metadata far below the 10 MB of a request to BigQuery."""

STORED = """
SELECT uuid, metadata_value FROM metadata_history
WHERE uuid IN :runs AND metadata_key = :key AND timestamp >= :since AND timestamp < :until
"""

NOT_JUDGED = f"""
SELECT uuid, test_name, timestamp FROM job_history
WHERE {OF_DEPLOYMENT} AND verdict IS NULL AND trial IS NULL AND timestamp >= :horizon AND EXISTS (
  SELECT 1 FROM metadata_history
  WHERE metadata_history.uuid = job_history.uuid AND metadata_history.metadata_key = :key
    AND metadata_history.timestamp >= :horizon
)
ORDER BY test_name, timestamp, uuid
"""


JOBS = select(
    JOB_COLUMNS, f"uuid IN :runs AND test_name = :test AND {IN_SPAN}", "ORDER BY timestamp, uuid", trials=True
)

METADATA = """
SELECT uuid, metadata_key, metadata_value FROM metadata_history
WHERE uuid IN :runs AND timestamp >= :since AND timestamp < :until
ORDER BY uuid, metadata_key
"""


@dataclass(slots=True)
class Imported:
    """The result for the runs so far."""

    runs: int = 0
    metrics: int = 0
    there: int = 0
    """Runs that were imported before, with the same content."""

    def document(self) -> dict[str, int]:
        return {"runs": self.runs, "metrics": self.metrics, "already_imported": self.there}


def record_of(run: PastRun, test: str, source: str, deployment: str) -> RunRecord:
    """A run of another program as a run of a test: without a verdict, which judging it gives it."""
    identity = Run(test, test, f"{RUN_ID}{source}__{run.key}", deployment)
    workload = Workload(run.status, started_at=run.started_at, ended_at=run.at)
    record = run_record(identity, workload, run.metrics, (), run.metadata, owner=run.owner or None)
    return marked(replace(record, job=replace(record.job, verdict=None)), source)


def marked(record: RunRecord, source: str) -> RunRecord:
    about = {"uuid": record.key, "timestamp": record.job.timestamp}
    texts = [about | {"metadata_key": key, "metadata_value": text} for key, text in record.metadata.items()]
    content = [asdict(record.job) | {"loaded_at": None}, *map(asdict, record.metrics), *texts]
    text = json.dumps(content, default=str, sort_keys=True)
    digest = hashlib.sha256(text.encode(errors="replace")).hexdigest()[:32]
    return replace(record, metadata={**record.metadata, SOURCE: source, CONTENT: digest})


def import_runs(warehouse: Warehouse, records: Iterable[RunRecord]) -> Iterator[Imported]:
    """Write runs page by page, and yield the counts after each. A page is written whole or not at all.

    The import can be killed at any time and started again: it skips stored runs.
    """
    done = Imported()
    for page in _pages(iter(records)):
        there = _stored(warehouse, page)
        new = [record for record in page if there.get(record.key) != record.metadata.get(CONTENT)]
        if new:
            warehouse.load_all(new)
        done.runs += len(new)
        done.metrics += sum(len(record.metrics) for record in new)
        done.there += len(page) - len(new)
        yield done


def not_judged(warehouse: Warehouse) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for row in warehouse.database.query(NOT_JUDGED, key=CONTENT):
        found.setdefault(row["test_name"], set()).add(row["uuid"])
    return found


def stored_runs(warehouse: Warehouse, test: str, ends: Mapping[str, datetime]) -> list[RunRecord]:
    """All rows of some imported runs of a test, oldest first, to write them again with their verdicts."""
    span = {"runs": list(ends), "since": min(ends.values()) - DAY, "until": max(ends.values()) + DAY}
    metrics = warehouse.metrics.of_runs(test, ends)
    metadata: dict[str, dict[str, str | None]] = {key: {} for key in ends}
    for row in warehouse.database.query(METADATA, **span):
        metadata[row["uuid"]][row["metadata_key"]] = row["metadata_value"]
    jobs = (JobRow(**row) for row in warehouse.database.query(JOBS, test=test, **span))
    return [RunRecord(job, tuple(metrics[job.uuid]), metadata[job.uuid]) for job in jobs]


def _pages(records: Iterator[RunRecord]) -> Iterator[list[RunRecord]]:
    page: list[RunRecord] = []
    metrics = 0
    for record in records:
        if page and (len(page) >= PAGE_RUNS or metrics + len(record.metrics) > PAGE_METRICS):
            yield page
            page, metrics = [], 0
        page.append(record)
        metrics += len(record.metrics)
    if page:
        yield page


def _stored(warehouse: Warehouse, page: Sequence[RunRecord]) -> dict[str, str]:
    times = [record.job.timestamp for record in page]
    span = {"runs": [record.key for record in page], "since": min(times) - DAY, "until": max(times) + DAY}
    return {row["uuid"]: row["metadata_value"] for row in warehouse.database.query(STORED, key=CONTENT, **span)}


STATUSES = {0: JobStatus.SUCCESS, 1: JobStatus.FAILURE, 2: JobStatus.MISSED}

COLUMNS = {
    "job_history": ("uuid", "timestamp", "owner", "job_name", "job_status"),
    "metric_history": ("job_uuid", "metric_key", "metric_value"),
    "metadata_history": ("job_uuid", "metadata_key", "metadata_value"),
}

OLDER_METRICS = "SELECT metric_key, metric_value FROM metric_history WHERE job_uuid = ?"
OLDER_METADATA = "SELECT metadata_key, metadata_value FROM metadata_history WHERE job_uuid = ?"

OLDER_TABLES = "older-tables"
"""What imported runs are marked with."""


def older_runs(address: str) -> Iterator[RunRecord]:
    """Yield all runs of the tables of another system as records. They keep their keys."""
    with (
        TemporaryDirectory(prefix="ml-metrics-import-") as folder,
        closing(sqlite3.connect(f"{folder}/older.db")) as copy,
    ):
        _copy(address, copy)
        # a run that was written twice under one key counts once
        once = (
            "SELECT * FROM job_history WHERE rowid IN (SELECT MAX(rowid) FROM job_history GROUP BY uuid) ORDER BY uuid"
        )
        for key, time, owner, test, status in copy.execute(once):
            metrics, metadata = (dict(copy.execute(query, (key,))) for query in (OLDER_METRICS, OLDER_METADATA))
            yield _record(key, time, owner, test, status, metrics, metadata)


def _copy(address: str, copy: sqlite3.Connection) -> None:
    """Copy the tables at an address, with an index for each: a dataset is read once, and not held in memory."""
    source = open_store(address, create=False)
    try:
        for table, columns in COLUMNS.items():
            copy.execute(f"CREATE TABLE {table} ({', '.join(columns)})")
            places = ", ".join("?" * len(columns))
            rows = (tuple(map(_older_value, row)) for row in source.scan(table, columns))
            copy.executemany(f"INSERT INTO {table} VALUES ({places})", rows)
            copy.execute(f"CREATE INDEX {table}_by_run ON {table} ({columns[0]})")
    finally:
        source.close()


def _older_value(value: Any) -> Any:
    return value.isoformat(sep=" ") if isinstance(value, datetime) else value


def _record(
    key: str, time: str, owner: str, test: str, code: int, metrics: dict[str, Any], metadata: dict[str, Any]
) -> RunRecord:
    if code not in STATUSES:
        raise WarehouseError(f"run {key}: job_status is {code!r}, not 0, 1 or 2")
    status, stopped, dag = STATUSES[code], as_utc(datetime.fromisoformat(time)), metadata.get("dag_id")
    job = JobRow(
        uuid=key,
        test_name=test,
        test_type="",
        accelerator=metadata.get("accelerator") or "",
        framework_version="",
        job_status=str(status),
        num_failures=int(status is not JobStatus.SUCCESS),
        job_duration_sec=0,
        timestamp=stopped,
        dag_id=dag,
        run_id=metadata.get("run_id"),
        owner=owner,
        loaded_at=datetime.now(UTC),
    )
    return RunRecord(
        job,
        tuple(
            StoredMetric(key, stopped, name, finite(value), status, None, test, written_at=stopped, dag_id=dag or test)
            for name, value in metrics.items()
        ),
        metadata,
    )
