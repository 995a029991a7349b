"""BigQuery, through Google's own client."""

from __future__ import annotations

import re
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from google.api_core.exceptions import GoogleAPICallError, RetryError
from google.auth.exceptions import GoogleAuthError
from google.cloud import bigquery
from google.cloud.bigquery.retry import DEFAULT_RETRY
from requests.exceptions import RequestException

from ml_metrics.errors import WarehouseError
from ml_metrics.warehouse.bigquery_load import replace_runs
from ml_metrics.warehouse.bigquery_schema import ensure_dataset

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ml_metrics.warehouse.record import RunRecord

PATIENCE = 600.0
"""Seconds for which 5xx answers, exhausted quotas and lost connections are tried again, at growing intervals."""

Answer = TypeVar("Answer")

PARAMETER = re.compile(r":([a-z_]+)")
LIST = re.compile(r"IN :([a-z_]+)")
TYPES = {str: "STRING", int: "INT64", float: "FLOAT64", datetime: "TIMESTAMP"}


class BigQueryStore:
    """A dataset."""

    def __init__(
        self, project: str, dataset: str, client: Any = None, *, create: bool = True, patience: float = PATIENCE
    ) -> None:
        self._project = project
        self._dataset = dataset
        self._given_client = client
        self._create = create
        self._patience = patience
        self._retry = DEFAULT_RETRY.with_timeout(patience)

    @property
    def name(self) -> str:
        """The dataset with its project, as BigQuery writes it."""
        return f"{self._project}.{self._dataset}"

    @property
    def address(self) -> str:
        """Where it is, for people."""
        return f"bigquery://{self._project}/{self._dataset}"

    @cached_property
    def client(self) -> Any:
        """The client that was handed in, or one with the environment's own credentials."""
        return self._given_client or bigquery.Client(project=self._project)

    @cached_property
    def location(self) -> str | None:
        """Where the dataset is: a job is found again only by its id and its location."""
        return self.client.get_dataset(self.name, retry=self._retry).location  # type: ignore[no-any-return]

    def close(self) -> None:
        """Close the client, unless somebody else made it."""
        if self._given_client is None and "client" in self.__dict__:
            self.client.close()

    def ensure_schema(self) -> None:
        """Create the dataset and its tables, or extend them in place."""
        self._reaching(lambda: ensure_dataset(self.client, self.name, self._retry, create=self._create))

    def replace(self, records: Sequence[RunRecord]) -> None:
        """Write all rows of some runs in one transaction of one job."""
        self._reaching(
            lambda: replace_runs(
                self.client, self.name, self.location, records, retry=self._retry, patience=self._patience
            )
        )

    def rows(self, query: str, parameters: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Ask, and return times that are aware and in UTC."""
        found = self._reaching(lambda: list(self._job(query, parameters).result(retry=self._retry)))
        return [dict(row.items()) for row in found]

    def change(self, statement: str, parameters: Mapping[str, Any]) -> int:
        """Run a statement. The client names the job, so a lost answer finds the job and not a second change."""

        def run() -> int:
            job = self._job(statement, parameters)
            job.result(retry=self._retry)
            return int(job.num_dml_affected_rows or 0)

        return self._reaching(run)

    def _job(self, query: str, parameters: Mapping[str, Any]) -> Any:
        config = bigquery.QueryJobConfig(
            default_dataset=self.name,
            labels={"ml_metrics": "query"},
            query_parameters=[_parameter(name, value) for name, value in parameters.items()],
        )
        words = PARAMETER.sub(r"@\1", LIST.sub(r"IN UNNEST(@\1)", query))
        return self.client.query(words, job_config=config, location=self.location, retry=self._retry)

    def _reaching(self, ask: Callable[[], Answer]) -> Answer:
        try:
            return ask()
        except (GoogleAPICallError, RetryError, GoogleAuthError, RequestException) as error:
            raise WarehouseError(f"{self.address}: {_in_one_line(error)}") from error


def _parameter(name: str, value: Any) -> Any:
    if isinstance(value, list):
        return bigquery.ArrayQueryParameter(name, "STRING", value)
    return bigquery.ScalarQueryParameter(name, TYPES[type(value)], value)


def _in_one_line(error: Exception) -> str:
    message = error.message if isinstance(error, GoogleAPICallError) and error.message else str(error)
    return " ".join(message.split())[:500]
