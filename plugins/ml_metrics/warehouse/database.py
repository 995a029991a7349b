"""The interface of an engine, and the database that creates its tables on first use."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Protocol

from ml_metrics.core.values import storable_text

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from ml_metrics.warehouse.record import RunRecord
    from ml_metrics.warehouse.tables import Plan


PARAMETER = re.compile(r":([a-z_]+)")


class Store(Protocol):
    """One engine: SQLite, PostgreSQL or BigQuery."""

    @property
    def address(self) -> str:
        """The address without its password, for messages."""

    @property
    def bills_bytes(self) -> bool:
        """Whether a query costs what it reads, so that two small queries are better than a large one."""

    @property
    def horizon(self) -> datetime:
        """The time before which no history is read."""

    def ensure_schema(self) -> None:
        """Create missing tables and extend older ones. Reject tables that are something else."""

    def plan(self) -> Plan:
        """Return the version of the tables, and what `ensure_schema` would change. Nothing is changed."""

    def replace(self, records: Sequence[RunRecord]) -> None:
        """Write all rows of some runs and delete the rows of their earlier attempts: all of it or nothing."""

    def rows(self, query: str, parameters: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Run a query. Times come back aware and in UTC."""

    def stream(self, query: str, parameters: Mapping[str, Any]) -> Generator[dict[str, Any]]:
        """Run a query and yield its rows, as `rows` returns them, without holding them all."""

    def scan(self, table: str, columns: Sequence[str]) -> Iterator[Sequence[Any]]:
        """Yield some columns of every row of a table, in any order, without holding them all."""

    def change(self, statement: str, parameters: Mapping[str, Any]) -> int:
        """Run a statement and return the number of rows that it changed."""

    def change_all(self, statements: Sequence[str], parameters: Mapping[str, Any]) -> None:
        """Run some statements in one transaction: all of them or none."""

    def close(self) -> None:
        """Release connections."""


class Database:
    """A store whose tables are created before the first query or statement.

    Each part of the warehouse holds its own SQL: constants in the SQL that all engines share. Values are passed as
    parameters (`:name`); nothing that comes from outside is ever formatted into a query. `:deployment` and `:horizon`
    are bound here, and texts are made storable.
    """

    def __init__(self, store: Store, deployment: str, *, is_ready: bool = False) -> None:
        self.store = store
        self.deployment = deployment
        self._is_ready = is_ready

    def ensure_schema(self) -> None:
        self.store.ensure_schema()
        self._is_ready = True

    def in_deployment(self, deployment: str) -> Database:
        return Database(self.store, deployment, is_ready=self._is_ready)

    def with_others(self, deployments: Iterable[str]) -> list[Database]:
        return [self, *map(self.in_deployment, dict.fromkeys(deployments))]

    def query(self, query: str, **parameters: Any) -> list[dict[str, Any]]:
        return self._ready().rows(query, self._bound(query, parameters))

    def stream(self, query: str, **parameters: Any) -> Generator[dict[str, Any]]:
        return self._ready().stream(query, self._bound(query, parameters))

    def change(self, statement: str, **parameters: Any) -> int:
        return self._ready().change(statement, self._bound(statement, parameters))

    def change_all(self, statements: Sequence[str], **parameters: Any) -> None:
        self._ready().change_all(statements, self._bound(" ".join(statements), parameters))

    def replace(self, records: Sequence[RunRecord]) -> None:
        """In one transaction, in place of earlier attempts; a run without a deployment becomes one of ours."""
        self._ready().replace([record.with_deployment(self.deployment) for record in records])

    def _bound(self, statement: str, parameters: dict[str, Any]) -> dict[str, Any]:
        """Return those parameters that the statement has, ours among them: engines reject what it has not."""
        given = {**parameters, "deployment": self.deployment, "horizon": self.store.horizon}
        used = set(PARAMETER.findall(statement))
        return {name: _storable(value) for name, value in given.items() if name in used}

    def _ready(self) -> Store:
        if not self._is_ready:
            self.ensure_schema()
        return self.store


def _storable(value: Any) -> Any:
    if isinstance(value, list):
        return [_storable(one) for one in value]
    return storable_text(value) if isinstance(value, str) else value


def of_deployment(alias: str = "") -> str:
    """Return the condition that selects the rows of a deployment, for a table with an alias.

    The rows of older versions have no deployment. They belong to every deployment until one claims them.
    """
    column = f"{alias}.deployment" if alias else "deployment"
    return f"({column} = :deployment OR {column} IS NULL)"


OF_DEPLOYMENT = of_deployment()
