"""From an address to a warehouse."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ml_metrics.errors import WarehouseError
from ml_metrics.warehouse.warehouse import Warehouse

if TYPE_CHECKING:
    from ml_metrics.warehouse.store import Store


def open_warehouse(address: str, *, client: Any = None) -> Warehouse:
    """Open the warehouse at an address: any SQLAlchemy URL, or `bigquery://project/dataset`.

    Nothing is asked of the server before the first question, and tables are made when they are first needed.
    `client` is a ready `google.cloud.bigquery.Client`; without one, BigQuery is reached with the environment's own
    credentials.
    """
    return Warehouse(open_store(address, client=client))


def open_store(address: str, *, client: Any = None) -> Store:
    """The engine alone, for reading tables that are not ours."""
    if address.startswith("bigquery://"):
        return _bigquery(address, client)
    from ml_metrics.warehouse.sql import SqlStore

    return SqlStore(address)


def _bigquery(address: str, client: Any) -> Store:
    parts = urlsplit(address)
    project, dataset = parts.netloc, parts.path.strip("/")
    if not project or not dataset or "/" in dataset:
        raise WarehouseError(f"{address}: should be bigquery://project/dataset")
    from ml_metrics.warehouse.bigquery import BigQueryStore

    return BigQueryStore(project, dataset, client)
