"""From an address to a warehouse."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from ml_metrics.errors import WarehouseError
from ml_metrics.warehouse.warehouse import Warehouse


def open_warehouse(address: str, *, client: Any = None) -> Warehouse:
    """Open the warehouse at an address: any SQLAlchemy URL, or `bigquery://project/dataset`.

    Nothing is asked of the server before the first question, and tables are made when they are first needed.
    `client` is a ready `google.cloud.bigquery.Client`; without one, BigQuery is reached with the environment's own
    credentials.
    """
    if address.startswith("bigquery://"):
        return _bigquery(address, client)
    from ml_metrics.warehouse.sql import SqlStore

    return Warehouse(SqlStore(address))


def _bigquery(address: str, client: Any) -> Warehouse:
    from ml_metrics.warehouse.bigquery import BigQueryStore

    parts = urlsplit(address)
    project, dataset = parts.netloc, parts.path.strip("/")
    if not project or not dataset or "/" in dataset:
        raise WarehouseError(f"{address}: should be bigquery://project/dataset")
    return Warehouse(BigQueryStore(project, dataset, client))
