"""BigQuery, with the client library of Google."""

from __future__ import annotations

import hashlib
import json
import random
import re
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from google.api_core.exceptions import Conflict, GoogleAPICallError, NotFound, PreconditionFailed, RetryError
from google.auth.exceptions import GoogleAuthError
from google.cloud import bigquery
from google.cloud.bigquery.retry import DEFAULT_RETRY
from requests.exceptions import RequestException

from ml_metrics.core.errors import WarehouseError
from ml_metrics.core.settings import SECTION
from ml_metrics.core.values import as_utc
from ml_metrics.warehouse.bigquery_options import BigQueryOptions, job_labels
from ml_metrics.warehouse.record import MAX_POINT_DISTANCE
from ml_metrics.warehouse.tables import (
    JOB_HISTORY,
    PARAMETER,
    RUN_TABLES,
    SCHEMA_VERSION,
    TABLES,
    ExistingColumn,
    Plan,
    check,
    version_of,
    warn_if_newer,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping, Sequence

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

PARAMETER_TYPES = {"STRING": "STRING", "INTEGER": "INT64", "FLOAT": "FLOAT64", "TIMESTAMP": "TIMESTAMP"}
SPELLINGS = {"INT64": "INTEGER", "FLOAT64": "FLOAT"}
VALUE_TYPES = {str: "STRING", int: "INT64", float: "FLOAT64", datetime: "TIMESTAMP"}

VERSION_LABEL = "ml_metrics_schema"
"""The label of a table with the version of its columns."""
MAX_ATTEMPTS = 5
"""How often a change of a table is retried because another process changed the table in between."""
RETRY_TIMEOUT_SECONDS = 600.0
"""How long server errors, exhausted quotas and lost connections are retried, at growing intervals."""

LIST = re.compile(r"IN :([a-z_]+)")

Result = TypeVar("Result")

COUNT_ROWS = """
SELECT
  (SELECT COUNT(*) FROM job_history WHERE uuid IN UNNEST(@runs) AND timestamp >= @since) AS jobs,
  (SELECT COUNT(*) FROM metric_history WHERE uuid IN UNNEST(@runs) AND timestamp >= @since) AS metrics
"""

EARLIER = "DECLARE first_row TIMESTAMP DEFAULT (SELECT MIN(timestamp) FROM job_history WHERE uuid IN UNNEST(@runs));"
"""Whether rows of an earlier attempt exist, and when the first run of them stopped. A variable of a script selects
partitions as a parameter does; a subquery would not."""


class BigQueryStore:
    """A dataset in BigQuery."""

    bills_bytes = True

    def __init__(
        self,
        project: str,
        dataset: str,
        client: Any = None,
        options: BigQueryOptions | None = None,
        *,
        create: bool = True,
        deployment: str = "",
        retry_timeout: float = RETRY_TIMEOUT_SECONDS,
    ) -> None:
        self.name = f"{project}.{dataset}"
        self.address = f"bigquery://{project}/{dataset}"
        self.options = options or BigQueryOptions()
        self.retry = DEFAULT_RETRY.with_timeout(retry_timeout)
        self.kinds: dict[tuple[str, str], str] = {}
        """The types of columns that are not as defined, by table and column: a load writes what the column is."""
        self._project = project
        self._given_client = client
        self._create = create
        self._deployment = deployment
        self._retry_timeout = retry_timeout

    @cached_property
    def client(self) -> Any:
        return self._given_client or bigquery.Client(project=self._project)

    @cached_property
    def location(self) -> str | None:
        """The location of the dataset. A job is looked up by its id and its location."""
        return self.client.get_dataset(self.name, retry=self.retry).location  # type: ignore[no-any-return]

    @property
    def horizon(self) -> datetime:
        return self.options.oldest_read(datetime.now(UTC))

    def close(self) -> None:
        """Close the client, unless the caller created it."""
        if self._given_client is None and "client" in self.__dict__:
            self.client.close()

    def ensure_schema(self) -> None:
        """Bring the dataset to its definition. A table that is something else is rejected before any change."""
        self.kinds = self._call(self._ensured)

    def _ensured(self) -> dict[tuple[str, str], str]:
        is_new = self._is_created()
        existing = {table: None if is_new else self._found(table) for table in TABLES}
        if not self._create and existing[JOB_HISTORY] is None:
            raise WarehouseError(
                f"dataset {self.name}: has no table {JOB_HISTORY.name}. Check the address; the tables are created when "
                "the first run is loaded."
            )
        warn_if_newer(self.name, _marked(existing[JOB_HISTORY]))
        columns = {table: self._columns(table, found) for table, found in existing.items() if found is not None}
        for table, found in existing.items():
            if found is None:
                self.client.create_table(_defined(self.name, table), exists_ok=True, retry=self.retry)
            elif _extended(table, found.schema) != list(found.schema):
                self._extend(table)
        return {
            (table.name, column.name): known[column.name].type
            for table, known in columns.items()
            for column in table.columns
            if column.name in known and known[column.name].type != column.kind
        }

    def plan(self) -> Plan:
        existing = self._call(lambda: {table: self._found(table) for table in TABLES})
        present = {table.name: {one.name for one in found.schema} for table, found in existing.items() if found}
        changes = (change for table, found in existing.items() for change in self._planned(table, found))
        return Plan(version_of(present, _marked(existing[JOB_HISTORY])), tuple(changes))

    def _planned(self, table: Table, found: Any | None) -> Iterator[str]:
        if found is None:
            yield f"create table {table.name}"
            return
        self._columns(table, found)
        fields = {each.name: each for each in found.schema}
        for wanted in _extended(table, found.schema):
            if wanted.name not in fields:
                yield f"add column {wanted.name} to {table.name}"
            elif wanted != fields[wanted.name]:
                yield f"allow null in column {wanted.name} of {table.name}"

    def _is_created(self) -> bool:
        """Create the dataset if it is missing; False if it was there, or another process was faster.

        It is looked up first: a user who may write tables may not be allowed to create datasets. It cannot be moved
        later, so there is no default location.
        """
        wanted = self.options.location
        try:
            found = self.client.get_dataset(self.name, retry=self.retry).location
        except NotFound as error:
            if not self._create:
                raise WarehouseError(
                    f"dataset {self.name}: does not exist. Check the address; the dataset is created when the first "
                    "run is loaded."
                ) from error
        else:
            if wanted and found.lower() != wanted.lower():
                raise WarehouseError(
                    f"dataset {self.name}: is in {found}, and `bigquery_location` in section [{SECTION}] (or "
                    f"`location` in the connection's extra) is {wanted}. Nothing was read or written: give another "
                    "dataset, or another location."
                )
            return False
        if not wanted:
            raise WarehouseError(
                f"dataset {self.name}: does not exist, and no location is set in which to create it. Set "
                f"`bigquery_location` in section [{SECTION}], for example AIRFLOW__{SECTION.upper()}__BIGQUERY_LOCATION"
                "=EU, or `location` in the connection's extra. A dataset cannot be moved later."
            )
        defined = bigquery.Dataset(self.name)
        defined.location = wanted
        try:
            self.client.create_dataset(defined, retry=self.retry)
        except Conflict:
            return False
        return True

    def _found(self, table: Table) -> Any | None:
        try:
            return self.client.get_table(f"{self.name}.{table.name}", retry=self.retry)
        except NotFound:
            return None

    def _columns(self, table: Table, found: Any) -> dict[str, ExistingColumn]:
        columns = {field.name: _column(field) for field in found.schema}
        check(table, f"{self.name}.{table.name}", columns, "dataset")
        return columns

    def _extend(self, table: Table) -> None:
        """Add missing columns and allow null in optional ones. After a concurrent change, start again."""
        for attempt in range(MAX_ATTEMPTS):
            found = self.client.get_table(f"{self.name}.{table.name}", retry=self.retry)
            wanted, marked = _extended(table, found.schema), _marked(found)
            if wanted == list(found.schema):
                return
            found.schema = wanted
            found.labels = {**(found.labels or {}), VERSION_LABEL: str(max(marked, SCHEMA_VERSION))}
            try:
                self.client.update_table(found, ["schema", "labels"], retry=self.retry)
            except PreconditionFailed:
                if attempt == MAX_ATTEMPTS - 1:
                    raise
            else:
                return

    def replace(self, records: Sequence[RunRecord]) -> None:
        """Write all rows of some runs, and delete those of their earlier attempts, in one transaction of one job."""
        self._call(lambda: self._replace(_Load(self, tuple(records))))

    def _replace(self, load: _Load) -> None:
        deadline, pause = time.monotonic() + self._retry_timeout, FIRST_PAUSE_SECONDS
        while (failure := load.attempt()) is not None:
            message = str(failure.get("message", ""))
            is_transient = any(part in message.lower() for part in TRANSIENT_MESSAGES)
            if not is_transient and failure.get("reason") not in TRANSIENT_REASONS:
                reason = self.options.explained(message)
                raise WarehouseError(f"{self.name}: the load was rejected, and nothing was written: {reason}")
            if time.monotonic() + pause > deadline:
                raise WarehouseError(
                    f"{self.name}: nothing was written; BigQuery was too busy for {self._retry_timeout:.0f} seconds: "
                    f"{message}"
                )
            time.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311  (not for cryptography)
            pause = min(pause * 2, MAX_PAUSE_SECONDS)

    def rows(self, query: str, parameters: Mapping[str, Any]) -> list[dict[str, Any]]:
        return list(self.stream(query, parameters))

    def stream(self, query: str, parameters: Mapping[str, Any]) -> Generator[dict[str, Any]]:
        rows = self._call(lambda: iter(self._job(query, parameters).result(retry=self.retry)))
        while (row := self._call(lambda: next(rows, None))) is not None:
            yield dict(row.items())

    def scan(self, table: str, columns: Sequence[str]) -> Iterator[Sequence[Any]]:
        """It is no query, so no bytes are billed."""

        def begin() -> Any:
            found = self.client.get_table(f"{self.name}.{table}", retry=self.retry)
            fields = {each.name: each for each in found.schema}
            if missing := [name for name in columns if name not in fields]:
                raise WarehouseError(f"{self.address}: table {table} has no column {missing[0]}")
            wanted = [fields[name] for name in columns]
            return iter(self.client.list_rows(found, selected_fields=wanted, retry=self.retry))

        rows = self._call(begin)
        while (row := self._call(lambda: next(rows, None))) is not None:
            yield [row[name] for name in columns]

    def change(self, statement: str, parameters: Mapping[str, Any]) -> int:
        """Run a statement once: the client sets the id of its job, so that a retry finds the job."""

        def run() -> int:
            job = self._job(statement, parameters)
            job.result(retry=self.retry)
            return int(job.num_dml_affected_rows or 0)

        return self._call(run)

    def change_all(self, statements: Sequence[str], parameters: Mapping[str, Any]) -> None:
        self.change(";\n".join(["BEGIN TRANSACTION", *statements, "COMMIT TRANSACTION;"]), parameters)

    def _job(self, query: str, parameters: Mapping[str, Any]) -> Any:
        labels = job_labels("query", self._deployment, str(parameters.get("test", "")))
        config = self.config(labels, [_parameter(name, value) for name, value in parameters.items()])
        text = PARAMETER.sub(r"@\1", LIST.sub(r"IN UNNEST(@\1)", query))
        return self.client.query(text, job_config=config, location=self.location, retry=self.retry)

    def config(self, labels: Mapping[str, str], parameters: list[Any]) -> Any:
        return bigquery.QueryJobConfig(
            default_dataset=self.name, labels=labels, query_parameters=parameters, **self.options.limits
        )

    def _call(self, request: Callable[[], Result]) -> Result:
        try:
            return request()
        except (GoogleAPICallError, RetryError, GoogleAuthError, RequestException) as error:
            message = error.message if isinstance(error, GoogleAPICallError) and error.message else str(error)
            one_line = " ".join(message.split())[:500]
            raise WarehouseError(f"{self.address}: {self.options.explained(one_line)}") from error


def _parameter(name: str, value: Any) -> Any:
    if isinstance(value, list):
        return bigquery.ArrayQueryParameter(name, "STRING", value)
    return bigquery.ScalarQueryParameter(name, VALUE_TYPES[type(value)], value)


def _marked(found: Any | None) -> int:
    mark = "" if found is None else (found.labels or {}).get(VERSION_LABEL, "")
    return int(mark) if mark.isdecimal() else 0


def _defined(dataset: str, table: Table) -> Any:
    defined = bigquery.Table(f"{dataset}.{table.name}", schema=[_field(column) for column in table.columns])
    defined.description = table.about
    defined.labels = {VERSION_LABEL: str(SCHEMA_VERSION)}
    if table.partition:
        defined.time_partitioning = bigquery.TimePartitioning(bigquery.TimePartitioningType.MONTH, table.partition)
    if table.cluster:
        defined.clustering_fields = list(table.cluster)
    return defined


def _field(column: Column) -> Any:
    mode = "REQUIRED" if column.required else "NULLABLE"
    return bigquery.SchemaField(column.name, str(column.kind), mode=mode, description=column.about)


def _column(field: Any) -> ExistingColumn:
    kind = SPELLINGS.get(field.field_type, field.field_type)
    kinds = () if field.mode == "REPEATED" else (kind,)
    return ExistingColumn(kind, kinds, field.mode != "REQUIRED", bool(field.default_value_expression))


def _extended(table: Table, schema: Sequence[Any]) -> list[Any]:
    """The fields of a table with those that it lacks, and with null allowed where a column is optional."""
    optional = {column.name for column in table.columns if not column.required}
    kept = [
        bigquery.SchemaField.from_api_repr({**field.to_api_repr(), "mode": "NULLABLE"})
        if field.mode == "REQUIRED" and field.name in optional
        else field
        for field in schema
    ]
    present = {field.name for field in schema}
    return [*kept, *(_field(column) for column in table.columns if column.name not in present)]


@dataclass
class _Load:
    """One load and its position in the chain of job ids."""

    store: BigQueryStore
    records: tuple[RunRecord, ...]
    place: int = 0
    """The number of the next id."""

    def attempt(self) -> dict[str, Any] | None:
        """Run a job with this content to its end. None if its rows are stored, else the error of the job."""
        while True:
            try:
                job = self._begin()
            except Conflict:
                job = self.job(self.place)
                if job is None:  # a conflict with something else than the id, such as a table that is being created
                    raise
                failure = self._end_of(job)
                is_last = self.job(self.place + 1) is None
                self.place += 1
                if failure is None and is_last and job.labels.get(CONTENT) == self._content and self._is_stored():
                    return None
                continue
            self.place += 1
            return self._end_of(job)

    def _begin(self) -> Any:
        config = self._config([self._runs, *self._parameters()], {CONTENT: self._content})
        size = len(json.dumps(config.to_api_repr()))
        if size > MAX_REQUEST_BYTES:
            rows = sum(len(record.metrics) for record in self.records)
            raise WarehouseError(
                f"{self.store.name}: nothing was written: {rows} metrics make a request of {size / 1e6:.1f} MB, and "
                "BigQuery accepts 10. Let fewer tags become metrics, with include_tags or tags_to_ignore."
            )
        # a failed job is not restarted under its id
        return self._query(script(), config, job_id=self._id(self.place), job_retry=None)

    def job(self, place: int) -> Any | None:
        store = self.store
        try:
            return store.client.get_job(self._id(place), location=store.location, retry=store.retry)
        except NotFound:
            return None

    def _end_of(self, job: Any) -> dict[str, Any] | None:
        """Wait for the end of a job. None if it succeeded, else its error."""
        try:
            job.result(retry=self.store.retry, job_retry=None)
        except GoogleAPICallError:
            job.reload(retry=self.store.retry)  # the error may be from the job or from the request about it
            if not job.error_result:
                raise
        return job.error_result  # type: ignore[no-any-return]

    def _is_stored(self) -> bool:
        """Whether the rows are there: the table may have been dropped since the job."""
        since = as_utc(min(record.job.timestamp for record in self.records)) - MAX_POINT_DISTANCE
        bounds = bigquery.ScalarQueryParameter("since", "TIMESTAMP", since)
        (row,) = self._query(COUNT_ROWS, self._config([self._runs, bounds])).result(retry=self.store.retry)
        return (row["jobs"], row["metrics"]) == (len(self.records), sum(len(record.metrics) for record in self.records))

    def _id(self, place: int) -> str:
        """The id depends on the dataset: two datasets do not share a chain."""
        load = json.dumps([self.store.name, sorted(record.key for record in self.records)])
        return f"ml_metrics_load_{hashlib.sha256(load.encode()).hexdigest()[:40]}_{place}"

    def _query(self, statement: str, config: Any, **options: Any) -> Any:
        store = self.store
        return store.client.query(statement, job_config=config, location=store.location, retry=store.retry, **options)

    def _config(self, parameters: list[Any], labels: Mapping[str, str] | None = None) -> Any:
        deployments = {record.job.deployment or "" for record in self.records}
        tests = {record.job.test_name for record in self.records}
        names = ("".join(found) if len(found) == 1 else "" for found in (deployments, tests))
        return self.store.config({**job_labels("load", *names), **(labels or {})}, parameters)

    @property
    def _content(self) -> str:
        rows = [record.rows() for record in self.records]
        for tables in rows:
            tables["job_history"][0].pop("loaded_at")  # it is not part of the content
        return hashlib.sha256(json.dumps(rows, default=str, sort_keys=True).encode()).hexdigest()[:40]

    @property
    def _runs(self) -> Any:
        return bigquery.ArrayQueryParameter("runs", "STRING", [record.key for record in self.records])

    def _parameters(self) -> Iterator[Any]:
        """An array of each table's rows."""
        scalar: Any = bigquery.ScalarQueryParameter
        scalar_type: Any = bigquery.ScalarQueryParameterType
        struct_type: Any = bigquery.StructQueryParameterType
        rows = [record.rows() for record in self.records]
        for table in RUN_TABLES:
            kinds = {one.name: self.store.kinds.get((table.name, one.name), one.kind) for one in table.columns}
            fields = [scalar_type(PARAMETER_TYPES[kind], name=name) for name, kind in kinds.items()]
            lines = [
                bigquery.StructQueryParameter(
                    None, *(scalar(name, PARAMETER_TYPES[kind], _as(kind, row[name])) for name, kind in kinds.items())
                )
                for tables in rows
                for row in tables[table.name]
            ]
            yield bigquery.ArrayQueryParameter(table.name, struct_type(*fields), lines)


def script() -> str:
    """The script of a job. Without rows of an earlier attempt it only inserts, and inserts never conflict."""
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
    return f"DELETE FROM {table.name} WHERE uuid IN UNNEST(@runs) AND ({older}{since});"


def _insert(table: Table) -> str:
    columns = ", ".join(table.names)
    values = ", ".join(f"line.{name}" for name in table.names)
    return f"INSERT INTO {table.name} ({columns})\nSELECT {values} FROM UNNEST(@{table.name}) AS line;"


def _as(kind: str, value: Any) -> Any:
    """A value for a column that holds a number as text, or a text as number, in an older table."""
    if kind == "STRING" and isinstance(value, int):
        return str(value)
    if kind == "INTEGER" and isinstance(value, str):
        return int(value) if value.strip().lstrip("-").isdecimal() else None
    return value
