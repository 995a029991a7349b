"""The interface of an engine, and the database that creates its tables on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ml_metrics.warehouse.record import RunRecord


class Store(Protocol):
    """One engine: SQLite, PostgreSQL or BigQuery."""

    @property
    def address(self) -> str:
        """The address without its password, for messages."""

    def ensure_schema(self) -> None:
        """Create missing tables and extend older ones. Reject tables that are something else."""

    def replace(self, records: Sequence[RunRecord]) -> None:
        """Write all rows of some runs and delete the rows of their earlier attempts: all of it or nothing."""

    def rows(self, query: str, parameters: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Run a query. Times come back aware and in UTC."""

    def change(self, statement: str, parameters: Mapping[str, Any]) -> int:
        """Run a statement and return the number of rows that it changed."""

    def close(self) -> None:
        """Release connections."""


class Database:
    """A store whose tables are created before the first query or statement.

    Each part of the warehouse holds its own SQL: constants in the SQL that all engines share. Values are passed as
    parameters (`:name`); nothing that comes from outside is ever formatted into a query. A statement that contains
    `:deployment` gets the deployment of this database.
    """

    def __init__(self, store: Store, deployment: str = "local") -> None:
        self.store = store
        self.deployment = deployment
        self._is_ready = False

    def ensure_schema(self) -> None:
        """Create missing tables and extend older ones, without losing a row."""
        self.store.ensure_schema()
        self._is_ready = True

    def query(self, query: str, **parameters: Any) -> list[dict[str, Any]]:
        """Return the rows of a query."""
        return self._ready().rows(query, self._with_deployment(query, parameters))

    def change(self, statement: str, **parameters: Any) -> int:
        """Run a statement and return the number of rows that it changed."""
        return self._ready().change(statement, self._with_deployment(statement, parameters))

    def replace(self, records: Sequence[RunRecord]) -> None:
        """Write all rows of some runs in one transaction, in place of those of their earlier attempts."""
        self._ready().replace(records)

    def _with_deployment(self, statement: str, parameters: dict[str, Any]) -> dict[str, Any]:
        return {"deployment": self.deployment, **parameters} if ":deployment" in statement else parameters

    def _ready(self) -> Store:
        if not self._is_ready:
            self.ensure_schema()
        return self.store
