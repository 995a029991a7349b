"""BigQuery, with the client library of Google."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from google.api_core.exceptions import GoogleAPICallError, RetryError
from google.auth.exceptions import GoogleAuthError
from google.cloud import bigquery
from google.cloud.bigquery.retry import DEFAULT_RETRY
from requests.exceptions import RequestException

from ml_metrics.errors import WarehouseError
from ml_metrics.warehouse.bigquery_load import Destination, replace_runs
from ml_metrics.warehouse.bigquery_options import BigQueryOptions, job_labels
from ml_metrics.warehouse.bigquery_schema import ensure_dataset, plan_of

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping, Sequence

    from ml_metrics.warehouse.bigquery_schema import OtherKinds
    from ml_metrics.warehouse.record import RunRecord
    from ml_metrics.warehouse.versions import Plan

RETRY_TIMEOUT_SECONDS = 600.0
"""How long server errors, exhausted quotas and lost connections are retried, at growing intervals."""

Result = TypeVar("Result")

PARAMETER = re.compile(r":([a-z_]+)")
LIST = re.compile(r"IN :([a-z_]+)")
TYPES = {str: "STRING", int: "INT64", float: "FLOAT64", datetime: "TIMESTAMP"}


class BigQueryStore:
    """A dataset in BigQuery."""

    bills_bytes = True

    def __init__(  # noqa: PLR0913  (where it is, and how it is used)
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
        """The name of the dataset with its project, as BigQuery writes it."""
        return f"{self._project}.{self._dataset}"

    @property
    def address(self) -> str:
        """The address, for messages."""
        return f"bigquery://{self._project}/{self._dataset}"

    @cached_property
    def client(self) -> Any:
        """The given client, or one with the credentials of the environment."""
        return self._given_client or bigquery.Client(project=self._project)

    @cached_property
    def location(self) -> str | None:
        """The location of the dataset. A job is looked up by its id and its location."""
        return self.client.get_dataset(self.name, retry=self._retry).location  # type: ignore[no-any-return]

    @property
    def horizon(self) -> datetime:
        """The time before which no history is read."""
        return self._options.oldest_read(datetime.now(UTC))

    def close(self) -> None:
        """Close the client, unless the caller created it."""
        if self._given_client is None and "client" in self.__dict__:
            self.client.close()

    def ensure_schema(self) -> None:
        """Create the dataset and its tables, or extend them in place."""
        self._kinds = self._call(
            lambda: ensure_dataset(self.client, self.name, self._retry, self._options, create=self._create)
        )

    def plan(self) -> Plan:
        """Return the version of the tables, and what `ensure_schema` would change."""
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
        """Run a query. Times come back aware and in UTC."""
        found = self._call(lambda: list(self._job(query, parameters).result(retry=self._retry)))
        return [dict(row.items()) for row in found]

    def stream(self, query: str, parameters: Mapping[str, Any]) -> Generator[dict[str, Any]]:
        """Run a query and yield its rows, page by page."""
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
        """Run some statements in one transaction of one job."""
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
