"""Write runs into BigQuery exactly once.

BigQuery has no unique keys and no locks, but it accepts a job id only once. The loads of a run form a chain of ids
that end in 0, 1, 2, ...; a writer whose id was accepted is the only one until its job ends. A writer that lost the
response finds its own job under the id, sees by a label that the content is the same, and is done. A writer with other
content, from a later attempt of the run, waits for the end of the chain, takes the next id and replaces the rows.
"""

from __future__ import annotations

import hashlib
import json
import random
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from google.api_core.exceptions import Conflict, GoogleAPICallError, NotFound
from google.cloud import bigquery

from ml_metrics.errors import WarehouseError
from ml_metrics.values import as_utc
from ml_metrics.warehouse.bigquery_options import job_labels
from ml_metrics.warehouse.record import MAX_POINT_DISTANCE
from ml_metrics.warehouse.tables import RUN_TABLES, Kind

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ml_metrics.warehouse.bigquery_options import BigQueryOptions
    from ml_metrics.warehouse.bigquery_schema import OtherKinds
    from ml_metrics.warehouse.record import RunRecord
    from ml_metrics.warehouse.tables import Column, Table

TRANSIENT_REASONS = frozenset(
    {"backendError", "internalError", "jobBackendError", "jobInternalError", "jobRateLimitExceeded"}
    | {"quotaExceeded", "rateLimitExceeded", "resourcesExceeded", "tableUnavailable"}
)
TRANSIENT_MESSAGES = ("concurrent update", "could not serialize", "too many dml statements", "failed to commit")
"""Parts of the messages for a transaction that conflicted with another, of BigQuery and of its emulator."""

CONTENT = "content"
"""The label with the digest of the rows."""

FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 1.0, 60.0
"""The pause between two attempts. Each is twice as long as the one before."""

MAX_REQUEST_BYTES = 9_900_000
"""The limit for the parameters. BigQuery accepts 10 MB (2^20 bytes each) for the whole request."""

PARAMETER_TYPES: dict[str, str] = {
    Kind.STRING: "STRING",
    Kind.INTEGER: "INT64",
    Kind.FLOAT: "FLOAT64",
    Kind.TIMESTAMP: "TIMESTAMP",
}

COUNT_ROWS = """
SELECT
  (SELECT COUNT(*) FROM job_history WHERE uuid IN UNNEST(@runs) AND timestamp >= @since) AS jobs,
  (SELECT COUNT(*) FROM metric_history WHERE uuid IN UNNEST(@runs) AND timestamp >= @since) AS metrics
"""

EARLIER = "DECLARE first_row TIMESTAMP DEFAULT (SELECT MIN(timestamp) FROM job_history WHERE uuid IN UNNEST(@runs));"
"""Whether rows of an earlier attempt exist, and when the first run of them stopped. A variable of a script selects
partitions as a parameter does; a subquery would not."""


@dataclass(frozen=True, slots=True)
class Destination:
    """The dataset that a load writes into."""

    client: Any
    dataset: str
    location: str | None
    options: BigQueryOptions
    retry: Any
    kinds: OtherKinds = field(default_factory=dict)
    """The types of columns that an older table has with another type."""

    def kind(self, table: Table, column: Column) -> str:
        """Return the type of a column as the table has it."""
        return self.kinds.get((table.name, column.name), column.kind)


def replace_runs(destination: Destination, records: Sequence[RunRecord], *, retry_timeout: float) -> None:
    """Write the rows of some runs and delete the rows of their earlier attempts: all of it or nothing."""
    load, dataset = _Load(destination, tuple(records)), destination.dataset
    deadline, pause = time.monotonic() + retry_timeout, FIRST_PAUSE_SECONDS
    while (failure := load.attempt()) is not None:
        if not _is_transient(failure):
            reason = destination.options.explained(failure["message"])
            raise WarehouseError(f"{dataset}: the load was rejected, and nothing was written: {reason}")
        if time.monotonic() + pause > deadline:
            raise WarehouseError(
                f"{dataset}: nothing was written; BigQuery was too busy for {retry_timeout:.0f} seconds: "
                f"{failure['message']}"
            )
        time.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311  (not for cryptography)
        pause = min(pause * 2, MAX_PAUSE_SECONDS)


@dataclass
class _Load:
    """One load and its position in the chain of job ids."""

    to: Destination
    records: tuple[RunRecord, ...]
    place: int = 0
    """The number of the next id."""

    def attempt(self) -> dict[str, Any] | None:
        """Run a job with this content to its end. Return None if its rows are stored, else the error of the job."""
        while True:
            try:
                job = self._begin()
            except Conflict:
                job = self._job(self.place)
                if job is None:  # a conflict with something else than the id, such as a table that is being created
                    raise
                failure = _end_of(job, self.to.retry)
                is_last = self._job(self.place + 1) is None
                self.place += 1
                if failure is None and is_last and job.labels.get(CONTENT) == self._content and self._is_stored():
                    return None
                continue
            self.place += 1
            return _end_of(job, self.to.retry)

    def _begin(self) -> Any:
        config = self._config(list(self._parameters()))
        config.labels = {**config.labels, CONTENT: self._content}
        size = len(json.dumps(config.to_api_repr()))
        if size > MAX_REQUEST_BYTES:
            rows = sum(len(record.metrics) for record in self.records)
            raise WarehouseError(
                f"{self.to.dataset}: nothing was written: {rows} metrics make a request of {size / 1e6:.1f} MB, and "
                "BigQuery accepts 10. Let fewer tags become metrics, with include_tags or tags_to_ignore."
            )
        return self.to.client.query(
            script(),
            job_id=self._id(self.place),
            job_config=config,
            location=self.to.location,
            retry=self.to.retry,
            job_retry=None,  # a failed job is not restarted under its id
        )

    def _job(self, place: int) -> Any | None:
        try:
            return self.to.client.get_job(self._id(place), location=self.to.location, retry=self.to.retry)
        except NotFound:
            return None

    def _is_stored(self) -> bool:
        """Return whether the rows are stored: the table may have been dropped since the job."""
        times = [record.job.timestamp for record in self.records]
        since = as_utc(min(times)) - MAX_POINT_DISTANCE
        config = self._config([self._runs(), bigquery.ScalarQueryParameter("since", "TIMESTAMP", since)])
        job = self.to.client.query(COUNT_ROWS, job_config=config, location=self.to.location, retry=self.to.retry)
        (row,) = job.result(retry=self.to.retry)
        return (row["jobs"], row["metrics"]) == (len(self.records), sum(len(record.metrics) for record in self.records))

    def _id(self, place: int) -> str:
        """Return the id of a job. The id depends on the dataset: two datasets do not share a chain."""
        load = json.dumps([self.to.dataset, sorted(record.key for record in self.records)])
        return f"ml_metrics_load_{hashlib.sha256(load.encode()).hexdigest()[:40]}_{place}"

    def _config(self, parameters: list[Any]) -> Any:
        """Return the configuration of a job. Its label names the test if all runs are of one."""
        deployments = {record.job.deployment or "" for record in self.records}
        tests = {record.job.test_name for record in self.records}
        names = ("".join(found) if len(found) == 1 else "" for found in (deployments, tests))
        return bigquery.QueryJobConfig(
            default_dataset=self.to.dataset,
            labels=job_labels("load", *names),
            query_parameters=parameters,
            **self.to.options.limits,
        )

    @property
    def _content(self) -> str:
        """A digest of the rows."""
        rows = [record.rows() for record in self.records]
        for tables in rows:
            tables["job_history"][0].pop("loaded_at")  # it is not part of the content
        return hashlib.sha256(json.dumps(rows, default=str, sort_keys=True).encode()).hexdigest()[:40]

    def _parameters(self) -> Iterator[Any]:
        yield self._runs()
        rows = [record.rows() for record in self.records]
        for table in RUN_TABLES:
            kinds = {column.name: self.to.kind(table, column) for column in table.columns}
            lines = [_line(kinds, row) for tables in rows for row in tables[table.name]]
            yield bigquery.ArrayQueryParameter(table.name, _line_type(kinds), lines)

    def _runs(self) -> Any:
        return bigquery.ArrayQueryParameter("runs", "STRING", [record.key for record in self.records])


def script() -> str:
    """Return the script of a job. Without rows of an earlier attempt it only inserts, and inserts never conflict."""
    return "\n".join(
        [
            EARLIER,
            "BEGIN TRANSACTION;",
            "IF first_row IS NOT NULL THEN",
            *(_delete(table) for table in RUN_TABLES),
            "END IF;",
            *(_insert(table) for table in RUN_TABLES),
            "COMMIT TRANSACTION;",
        ]
    )


def _delete(table: Table) -> str:
    """Delete the rows of an earlier attempt. They are not older than its end, but for the distance of points."""
    is_required = any(column.name == "timestamp" and column.required for column in table.columns)
    older = "" if is_required else "timestamp IS NULL OR "
    since = f"timestamp >= TIMESTAMP_SUB(first_row, INTERVAL {MAX_POINT_DISTANCE.days} DAY)"
    return f"DELETE FROM {table.name} WHERE uuid IN UNNEST(@runs) AND ({older}{since});"  # noqa: S608


def _insert(table: Table) -> str:
    columns = ", ".join(table.names)
    values = ", ".join(f"line.{name}" for name in table.names)
    return f"INSERT INTO {table.name} ({columns})\nSELECT {values} FROM UNNEST(@{table.name}) AS line;"


def _line_type(kinds: dict[str, str]) -> Any:
    fields: Any = bigquery.ScalarQueryParameterType
    struct: Any = bigquery.StructQueryParameterType
    return struct(*(fields(PARAMETER_TYPES[kind], name=name) for name, kind in kinds.items()))


def _line(kinds: dict[str, str], row: dict[str, Any]) -> Any:
    return bigquery.StructQueryParameter(
        None,
        *(
            bigquery.ScalarQueryParameter(name, PARAMETER_TYPES[kind], _as(kind, row[name]))
            for name, kind in kinds.items()
        ),
    )


def _as(kind: str, value: Any) -> Any:
    """Return a value for a column that holds a number as text, or a text as number, in an older table."""
    if kind == Kind.STRING and isinstance(value, int):
        return str(value)
    if kind == Kind.INTEGER and isinstance(value, str):
        return int(value) if value.strip().lstrip("-").isdecimal() else None
    return value


def _end_of(job: Any, retry: Any) -> dict[str, Any] | None:
    """Wait for the end of a job. Return None if it succeeded, else its error."""
    try:
        job.result(retry=retry, job_retry=None)
    except GoogleAPICallError:
        job.reload(retry=retry)  # the error may be from the job or from the request about it
        if not job.error_result:
            raise
    return job.error_result  # type: ignore[no-any-return]


def _is_transient(failure: dict[str, Any]) -> bool:
    message = str(failure.get("message", "")).lower()
    return failure.get("reason") in TRANSIENT_REASONS or any(part in message for part in TRANSIENT_MESSAGES)
