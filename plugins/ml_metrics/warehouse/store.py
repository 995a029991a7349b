"""What an engine must be able to do; everything else is written once, above it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ml_metrics.warehouse.record import RunRecord


class Store(Protocol):
    """SQLite, PostgreSQL or BigQuery, below the one `Warehouse`."""

    @property
    def address(self) -> str:
        """Where it is, for people: without a password."""

    def ensure_schema(self) -> None:
        """Make what tables are missing, extend what tables are older, and refuse tables that are something else."""

    def replace(self, records: Sequence[RunRecord]) -> None:
        """Write all rows of some runs and remove those of their earlier attempts: all of it or nothing."""

    def rows(self, query: str, parameters: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Ask one of the queries of `queries.py`. Times come back aware and in UTC."""

    def change(self, statement: str, parameters: Mapping[str, Any]) -> int:
        """Run one of the statements of `queries.py` and tell how many rows it changed."""

    def close(self) -> None:
        """Give back connections."""
