"""The warehouse: the tables of runs and metrics, in SQLite, PostgreSQL or BigQuery.

`open_warehouse(address)` returns a `Warehouse`; `run_record(...)` builds the record that its `load` takes. Importing
this package is cheap: SQLAlchemy and the BigQuery client are imported when a warehouse is opened.
"""

from typing import TYPE_CHECKING

from ml_metrics.core.lazy import imported_on_first_use

if TYPE_CHECKING:
    from ml_metrics.warehouse.decisions import QuarantineRow
    from ml_metrics.warehouse.incidents import Assessment, Incident
    from ml_metrics.warehouse.known_tests import KnownState, KnownTest
    from ml_metrics.warehouse.messages import (
        ChannelResult,
        ChannelState,
        MessageState,
        SenderPass,
        SendersState,
        StoredMessage,
    )
    from ml_metrics.warehouse.record import JobRow, MetadataRow, RunRecord, run_record
    from ml_metrics.warehouse.runs import RunSummary, TestStatus
    from ml_metrics.warehouse.warehouse import Warehouse, open_warehouse, sqlite_address


__all__ = [
    "Assessment",
    "ChannelResult",
    "ChannelState",
    "Incident",
    "JobRow",
    "KnownState",
    "KnownTest",
    "MessageState",
    "MetadataRow",
    "QuarantineRow",
    "RunRecord",
    "RunSummary",
    "SenderPass",
    "SendersState",
    "StoredMessage",
    "TestStatus",
    "Warehouse",
    "open_warehouse",
    "run_record",
    "sqlite_address",
]

_HOMES = {
    "Assessment": "ml_metrics.warehouse.incidents",
    "ChannelResult": "ml_metrics.warehouse.messages",
    "ChannelState": "ml_metrics.warehouse.messages",
    "Incident": "ml_metrics.warehouse.incidents",
    "JobRow": "ml_metrics.warehouse.record",
    "KnownState": "ml_metrics.warehouse.known_tests",
    "KnownTest": "ml_metrics.warehouse.known_tests",
    "MessageState": "ml_metrics.warehouse.messages",
    "MetadataRow": "ml_metrics.warehouse.record",
    "QuarantineRow": "ml_metrics.warehouse.decisions",
    "RunRecord": "ml_metrics.warehouse.record",
    "RunSummary": "ml_metrics.warehouse.runs",
    "SenderPass": "ml_metrics.warehouse.messages",
    "SendersState": "ml_metrics.warehouse.messages",
    "StoredMessage": "ml_metrics.warehouse.messages",
    "TestStatus": "ml_metrics.warehouse.runs",
    "Warehouse": "ml_metrics.warehouse.warehouse",
    "open_warehouse": "ml_metrics.warehouse.warehouse",
    "run_record": "ml_metrics.warehouse.record",
    "sqlite_address": "ml_metrics.warehouse.warehouse",
}
__getattr__ = imported_on_first_use(__name__, _HOMES)
