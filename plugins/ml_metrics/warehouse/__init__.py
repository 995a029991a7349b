"""Rows, each once, in SQLite, PostgreSQL or BigQuery: runs, metrics, incidents, messages and decisions.

`open_warehouse(address)` returns a `Warehouse`, whose `load` takes a `run_record(...)`. Importing this room is cheap:
SQLAlchemy and the client of BigQuery are imported when a warehouse is opened.
"""

from typing import TYPE_CHECKING

from ml_metrics.core.lazy import on_first_use

if TYPE_CHECKING:
    from ml_metrics.warehouse.bigquery_options import BigQueryOptions
    from ml_metrics.warehouse.decisions import QuarantineRow
    from ml_metrics.warehouse.imports import (
        OLDER_TABLES,
        Imported,
        import_runs,
        marked,
        not_judged,
        older_runs,
        record_of,
        stored_runs,
    )
    from ml_metrics.warehouse.incidents import Assessment, Incident
    from ml_metrics.warehouse.known_tests import (
        DEFINITION,
        IMPORT_ERROR,
        MISSED,
        MISSING,
        PAUSED,
        RENAMED,
        UNREADABLE,
        VANISHED,
        KnownState,
        KnownTest,
        carried_over,
        known_test,
    )
    from ml_metrics.warehouse.messages import (
        HOLD_OFF,
        IN_DIGEST,
        LATEST_ATTEMPT,
        SILENT_AFTER,
        ChannelResult,
        ChannelState,
        MessageState,
        SenderPass,
        SendersState,
        StoredMessage,
    )
    from ml_metrics.warehouse.metrics import Judged, NamedMetric
    from ml_metrics.warehouse.old_rows import OldRows
    from ml_metrics.warehouse.record import JobRow, Place, RunRecord, metric_columns, run_record, with_verdicts
    from ml_metrics.warehouse.references import MAX_METRICS, KnownLevels, curves_before, good_before, references_of
    from ml_metrics.warehouse.runs import RunSummary, RunSums, ScheduledRuns, TestStatus, green_tests, nodes_of_runs
    from ml_metrics.warehouse.sql import libpq_options
    from ml_metrics.warehouse.tables import SCHEMA_VERSION, TABLES, VERSIONS, Table
    from ml_metrics.warehouse.warehouse import Warehouse, open_warehouse, sqlite_address

__getattr__ = on_first_use(__name__)
