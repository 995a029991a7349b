"""The database of a deployment, whose tables are created on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ml_metrics.core.values import storable_text
from ml_metrics.warehouse.tables import PARAMETER

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Sequence

    from ml_metrics.warehouse.bigquery import BigQueryStore
    from ml_metrics.warehouse.record import RunRecord
    from ml_metrics.warehouse.sql import SqlStore

    Store = SqlStore | BigQueryStore


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
        """Those parameters that the statement has, ours among them: engines reject what it has not."""
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
    """Selects the rows of a deployment. Those of older versions have none: everybody's, until one claims them."""
    column = f"{alias}.deployment" if alias else "deployment"
    return f"({column} = :deployment OR {column} IS NULL)"


OF_DEPLOYMENT = of_deployment()
