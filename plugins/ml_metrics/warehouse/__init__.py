"""The tables of runs and metrics, each run exactly once.

`open_warehouse(address)` gives a `Warehouse`; `run_record(...)` makes what its `load` takes. Importing this package
is cheap: SQLAlchemy and BigQuery's client come in only when a warehouse is opened.
"""

from ml_metrics.warehouse.open import open_warehouse
from ml_metrics.warehouse.record import JobRow, MetadataRow, MetricRow, RunRecord, run_record
from ml_metrics.warehouse.rows import Delivery, MetricValue, OpenAlert, TestSummary
from ml_metrics.warehouse.warehouse import Warehouse

__all__ = [
    "Delivery",
    "JobRow",
    "MetadataRow",
    "MetricRow",
    "MetricValue",
    "OpenAlert",
    "RunRecord",
    "TestSummary",
    "Warehouse",
    "open_warehouse",
    "run_record",
]
