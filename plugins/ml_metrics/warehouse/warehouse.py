"""The warehouse: runs, metrics, incidents, deliveries and decisions over any engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from ml_metrics.warehouse.database import Database
from ml_metrics.warehouse.decisions import Acceptances, Quarantines
from ml_metrics.warehouse.deliveries import Deliveries
from ml_metrics.warehouse.incidents import Incidents
from ml_metrics.warehouse.metrics import Metrics
from ml_metrics.warehouse.runs import Runs

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from ml_metrics.warehouse.database import Store
    from ml_metrics.warehouse.record import RunRecord


class Warehouse:
    """All stored runs and what was decided about them. Made by `open_warehouse`; use it in a `with`, or close it.

    `load` writes a run. Everything else is in a part: `runs`, `metrics`, `incidents`, `deliveries`, `acceptances` and
    `quarantines`.
    """

    def __init__(self, store: Store) -> None:
        self.database = Database(store)
        self.runs = Runs(self.database)
        self.metrics = Metrics(self.database)
        self.incidents = Incidents(self.database)
        self.deliveries = Deliveries(self.database)
        self.acceptances = Acceptances(self.database)
        self.quarantines = Quarantines(self.database)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def address(self) -> str:
        """The address without its password, for messages."""
        return self.database.store.address

    def close(self) -> None:
        """Release connections."""
        self.database.store.close()

    def ensure_schema(self) -> None:
        """Create missing tables and extend older ones, without losing a row. The first query does this as well."""
        self.database.ensure_schema()

    def load(self, record: RunRecord) -> None:
        """Write a run into all tables or none, exactly once, however often this is called.

        The rows of an earlier attempt of the same run are replaced.
        """
        self.load_all([record])

    def load_all(self, records: Sequence[RunRecord]) -> None:
        """Write some runs in one transaction. An import passes a few hundred at a time."""
        self.database.replace(records)
