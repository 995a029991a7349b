"""A store that is asked and changed, with its tables made on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from types import TracebackType

    from ml_metrics.warehouse.store import Store


class Asking:
    """What every part of the warehouse stands on."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._schema_is_ensured = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def address(self) -> str:
        """Where it is, for people: without a password."""
        return self._store.address

    def close(self) -> None:
        """Give back connections."""
        self._store.close()

    def ensure_schema(self) -> None:
        """Make missing tables and extend older ones, without losing a row. Every method does this on first use."""
        self._store.ensure_schema()
        self._schema_is_ensured = True

    def _ask(self, query: str, **parameters: Any) -> list[dict[str, Any]]:
        return self._ready().rows(query, parameters)

    def _change(self, statement: str, **parameters: Any) -> int:
        return self._ready().change(statement, parameters)

    def _ready(self) -> Store:
        if not self._schema_is_ensured:
            self.ensure_schema()
        return self._store
