"""The warehouse: the tables of runs and metrics, in SQLite, PostgreSQL or BigQuery.

`open_warehouse(address)` returns a `Warehouse`; `run_record(...)` builds the record that its `load` takes. Importing
this package is cheap: SQLAlchemy and the BigQuery client are imported when a warehouse is opened.
"""

from ml_metrics.warehouse.decisions import QuarantineRow
from ml_metrics.warehouse.incidents import Assessment, Incident
from ml_metrics.warehouse.known_tests import KnownState, KnownTest
from ml_metrics.warehouse.messages import ChannelResult, ChannelState, MessageState, StoredMessage
from ml_metrics.warehouse.record import JobRow, MetadataRow, RunRecord, run_record
from ml_metrics.warehouse.run_summaries import RunSummary
from ml_metrics.warehouse.runs import TestStatus
from ml_metrics.warehouse.senders import SenderPass, SendersState
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
