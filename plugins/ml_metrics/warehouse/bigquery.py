"""BigQuery, with the client library of Google."""

from __future__ import annotations

import hashlib
import json
import random
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
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
from ml_metrics.warehouse.database import PARAMETER
from ml_metrics.warehouse.record import MAX_POINT_DISTANCE
from ml_metrics.warehouse.tables import (
    JOB_HISTORY,
    RUN_TABLES,
    SCHEMA_VERSION,
    TABLES,
    ExistingColumn,
    Kind,
    Plan,
    check,
    version_of,
    warn_if_newer,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

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
        rows = [record.rows() for record in self.records]
        for tables in rows:
            tables["job_history"][0].pop("loaded_at")  # it is not part of the content
        return hashlib.sha256(json.dumps(rows, default=str, sort_keys=True).encode()).hexdigest()[:40]

    def _parameters(self) -> Iterator[Any]:
        yield self._runs()
        rows = [record.rows() for record in self.records]
        for table in RUN_TABLES:
            kinds = {one.name: self.to.kinds.get((table.name, one.name), one.kind) for one in table.columns}
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
    return f"DELETE FROM {table.name} WHERE uuid IN UNNEST(@runs) AND ({older}{since});"


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


OtherKinds = Mapping[tuple[str, str], str]
"""The types of columns that are not as defined, by table and column."""

SPELLINGS = {"INT64": "INTEGER", "FLOAT64": "FLOAT"}
VERSION_LABEL = "ml_metrics_schema"
"""The label of a table with the version of its columns."""
MAX_ATTEMPTS = 5
"""How often a change of a table is retried because another process changed the table in between."""


def ensure_dataset(client: Any, dataset: str, retry: Any, options: BigQueryOptions, *, create: bool) -> OtherKinds:
    """Bring the dataset to its definition. A table that is something else is rejected before any change.

    Return the types of columns that an older table has with another accepted type: a load writes what the column is.
    """
    is_new = False
    try:
        found = client.get_dataset(dataset, retry=retry)
    except NotFound as error:  # get before create: a user who may write tables may not be allowed to create datasets
        if not create:
            raise WarehouseError(
                f"dataset {dataset}: does not exist. Check the address; the dataset is created when the "
                "first run is loaded."
            ) from error
        is_new = _create(client, dataset, options.location, retry)
    else:
        _check_location(dataset, found.location, options.location)
    existing = {table.name: None if is_new else _existing(client, dataset, table, retry) for table in TABLES}
    if not create and existing[JOB_HISTORY.name] is None:
        raise WarehouseError(
            f"dataset {dataset}: has no table {JOB_HISTORY.name}. Check the address; the tables are "
            "created when the first run is loaded."
        )
    warn_if_newer(dataset, _marked(existing[JOB_HISTORY.name]))
    for table in TABLES:
        if (found := existing[table.name]) is not None:
            check(table, f"{dataset}.{table.name}", _columns(found), "dataset")
    for table in TABLES:
        if (found_table := existing[table.name]) is None:
            client.create_table(_defined(dataset, table), exists_ok=True, retry=retry)
        elif _extended(table, list(found_table.schema)) != list(found_table.schema):
            _extend(client, dataset, table, retry)
    return {
        (table.name, column.name): kind
        for table in TABLES
        if (found_table := existing[table.name]) is not None
        for kinds in [_columns(found_table)]
        for column in table.columns
        if (kind := kinds[column.name].type if column.name in kinds else column.kind) != column.kind
    }


def plan_of(client: Any, dataset: str, retry: Any) -> Plan:
    """Return the version of the tables, and what `ensure_dataset` would change. Nothing is changed."""
    existing = {table.name: _existing(client, dataset, table, retry) for table in TABLES}
    present = {name: {field.name for field in found.schema} for name, found in existing.items() if found is not None}
    return Plan(version_of(present, _marked(existing[JOB_HISTORY.name])), tuple(_planned(dataset, existing)))


def _planned(dataset: str, existing: dict[str, Any]) -> Iterator[str]:
    for table in TABLES:
        found = existing[table.name]
        if found is None:
            yield f"create table {table.name}"
            continue
        check(table, f"{dataset}.{table.name}", _columns(found), "dataset")
        fields = {each.name: each for each in found.schema}
        for wanted in _extended(table, list(found.schema)):
            if wanted.name not in fields:
                yield f"add column {wanted.name} to {table.name}"
            elif wanted != fields[wanted.name]:
                yield f"allow null in column {wanted.name} of {table.name}"


def _marked(found: Any | None) -> int:
    mark = "" if found is None else (found.labels or {}).get(VERSION_LABEL, "")
    return int(mark) if mark.isdecimal() else 0


def _create(client: Any, dataset: str, location: str, retry: Any) -> bool:
    """Create the dataset in the location of the options, and return whether no other process was faster.

    It cannot be moved later, so there is no default location.
    """
    if not location:
        raise WarehouseError(
            f"dataset {dataset}: does not exist, and no location is set in which to create it. Set `bigquery_location` "
            f"in section [{SECTION}], for example AIRFLOW__{SECTION.upper()}__BIGQUERY_LOCATION=EU, or `location` in "
            "the connection's extra. A dataset cannot be moved later."
        )
    defined = bigquery.Dataset(dataset)
    defined.location = location
    try:
        client.create_dataset(defined, retry=retry)
    except Conflict:
        return False
    return True


def _check_location(dataset: str, found: str, wanted: str) -> None:
    if wanted and found.lower() != wanted.lower():
        raise WarehouseError(
            f"dataset {dataset}: is in {found}, and `bigquery_location` in section [{SECTION}] (or `location` in the "
            f"connection's extra) is {wanted}. Nothing was read or written: give another dataset, or another location."
        )


def _existing(client: Any, dataset: str, table: Table, retry: Any) -> Any | None:
    try:
        return client.get_table(f"{dataset}.{table.name}", retry=retry)
    except NotFound:
        return None


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


def _columns(found: Any) -> dict[str, ExistingColumn]:
    return {field.name: _column(field) for field in found.schema}


def _column(field: Any) -> ExistingColumn:
    kind = SPELLINGS.get(field.field_type, field.field_type)
    kinds = () if field.mode == "REPEATED" else (kind,)
    return ExistingColumn(kind, kinds, field.mode != "REQUIRED", bool(field.default_value_expression))


def _extend(client: Any, dataset: str, table: Table, retry: Any) -> None:
    """Add missing columns and allow null in optional ones. After a concurrent change, start again."""
    for attempt in range(MAX_ATTEMPTS):
        found = client.get_table(f"{dataset}.{table.name}", retry=retry)
        wanted, marked = _extended(table, list(found.schema)), _marked(found)
        if wanted == list(found.schema):
            return
        found.schema = wanted
        found.labels = {**(found.labels or {}), VERSION_LABEL: str(max(marked, SCHEMA_VERSION))}
        try:
            client.update_table(found, ["schema", "labels"], retry=retry)
        except PreconditionFailed:
            if attempt == MAX_ATTEMPTS - 1:
                raise
        else:
            return


def _extended(table: Table, schema: list[Any]) -> list[Any]:
    optional = {column.name for column in table.columns if not column.required}
    present = {field.name for field in schema}
    kept = [_nullable(field) if field.mode == "REQUIRED" and field.name in optional else field for field in schema]
    return [*kept, *(_field(column) for column in table.columns if column.name not in present)]


def _nullable(field: Any) -> Any:
    return bigquery.SchemaField.from_api_repr({**field.to_api_repr(), "mode": "NULLABLE"})


RETRY_TIMEOUT_SECONDS = 600.0
"""How long server errors, exhausted quotas and lost connections are retried, at growing intervals."""

Result = TypeVar("Result")

LIST = re.compile(r"IN :([a-z_]+)")
TYPES = {str: "STRING", int: "INT64", float: "FLOAT64", datetime: "TIMESTAMP"}


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
        self._project = project
        self._dataset = dataset
        self._given_client = client
        self._options = options or BigQueryOptions()
        self._kinds: OtherKinds = {}
        self._create = create
        self._deployment = deployment
        self._retry_timeout = retry_timeout
        self._retry = DEFAULT_RETRY.with_timeout(retry_timeout)

    @property
    def name(self) -> str:
        return f"{self._project}.{self._dataset}"

    @property
    def address(self) -> str:
        return f"bigquery://{self._project}/{self._dataset}"

    @cached_property
    def client(self) -> Any:
        return self._given_client or bigquery.Client(project=self._project)

    @cached_property
    def location(self) -> str | None:
        """The location of the dataset. A job is looked up by its id and its location."""
        return self.client.get_dataset(self.name, retry=self._retry).location  # type: ignore[no-any-return]

    @property
    def horizon(self) -> datetime:
        return self._options.oldest_read(datetime.now(UTC))

    def close(self) -> None:
        """Close the client, unless the caller created it."""
        if self._given_client is None and "client" in self.__dict__:
            self.client.close()

    def ensure_schema(self) -> None:
        self._kinds = self._call(
            lambda: ensure_dataset(self.client, self.name, self._retry, self._options, create=self._create)
        )

    def plan(self) -> Plan:
        return self._call(lambda: plan_of(self.client, self.name, self._retry))

    def replace(self, records: Sequence[RunRecord]) -> None:
        """Write all rows of some runs in one transaction of one job."""
        self._call(
            lambda: replace_runs(
                Destination(self.client, self.name, self.location, self._options, self._retry, self._kinds),
                records,
                retry_timeout=self._retry_timeout,
            )
        )

    def rows(self, query: str, parameters: Mapping[str, Any]) -> list[dict[str, Any]]:
        found = self._call(lambda: list(self._job(query, parameters).result(retry=self._retry)))
        return [dict(row.items()) for row in found]

    def stream(self, query: str, parameters: Mapping[str, Any]) -> Generator[dict[str, Any]]:
        rows = self._call(lambda: iter(self._job(query, parameters).result(retry=self._retry)))
        while (row := self._call(lambda: next(rows, None))) is not None:
            yield dict(row.items())

    def scan(self, table: str, columns: Sequence[str]) -> Iterator[Sequence[Any]]:
        """Yield some columns of every row of a table, in any order. It is no query, so no bytes are billed."""

        def begin() -> Any:
            found = self.client.get_table(f"{self.name}.{table}", retry=self._retry)
            fields = {each.name: each for each in found.schema}
            if missing := [name for name in columns if name not in fields]:
                raise WarehouseError(f"{self.address}: table {table} has no column {missing[0]}")
            wanted = [fields[name] for name in columns]
            return iter(self.client.list_rows(found, selected_fields=wanted, retry=self._retry))

        rows = self._call(begin)
        while (row := self._call(lambda: next(rows, None))) is not None:
            yield [row[name] for name in columns]

    def change(self, statement: str, parameters: Mapping[str, Any]) -> int:
        """Run a statement once: the client sets the id of its job, so that a retry finds the job."""

        def run() -> int:
            job = self._job(statement, parameters)
            job.result(retry=self._retry)
            return int(job.num_dml_affected_rows or 0)

        return self._call(run)

    def change_all(self, statements: Sequence[str], parameters: Mapping[str, Any]) -> None:
        self.change(";\n".join(["BEGIN TRANSACTION", *statements, "COMMIT TRANSACTION;"]), parameters)

    def _job(self, query: str, parameters: Mapping[str, Any]) -> Any:
        config = bigquery.QueryJobConfig(
            default_dataset=self.name,
            labels=job_labels("query", self._deployment, str(parameters.get("test", ""))),
            query_parameters=[_parameter(name, value) for name, value in parameters.items()],
            **self._options.limits,
        )
        text = PARAMETER.sub(r"@\1", LIST.sub(r"IN UNNEST(@\1)", query))
        return self.client.query(text, job_config=config, location=self.location, retry=self._retry)

    def _call(self, request: Callable[[], Result]) -> Result:
        try:
            return request()
        except (GoogleAPICallError, RetryError, GoogleAuthError, RequestException) as error:
            raise WarehouseError(f"{self.address}: {self._options.explained(_one_line(error))}") from error


def _parameter(name: str, value: Any) -> Any:
    if isinstance(value, list):
        return bigquery.ArrayQueryParameter(name, "STRING", value)
    return bigquery.ScalarQueryParameter(name, TYPES[type(value)], value)


def _one_line(error: Exception) -> str:
    message = error.message if isinstance(error, GoogleAPICallError) and error.message else str(error)
    return " ".join(message.split())[:500]
