"""Open a warehouse by its address."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ml_metrics.errors import WarehouseError
from ml_metrics.warehouse.warehouse import Warehouse

if TYPE_CHECKING:
    from ml_metrics.warehouse.database import Store


def open_warehouse(address: str, *, create: bool = True, client: Any = None) -> Warehouse:
    """Open the warehouse at an address: any SQLAlchemy URL, or `bigquery://project/dataset`.

    Nothing is sent to a server before the first query. What is missing is created on first use: the SQLite file with
    its folder, the dataset, the tables. Pass `create=False` wherever an empty warehouse is of no use, as in a command
    that only reads: then a missing file raises `WarehouseError` here, a missing dataset or a database without our
    tables raises it on first use, and nothing is created. The tables of an existing warehouse are brought up to date
    either way.

    `client` is a ready `google.cloud.bigquery.Client`; by default, the client has the credentials of the environment.
    """
    return Warehouse(open_store(address, create=create, client=client))


def open_store(address: str, *, create: bool, client: Any = None) -> Store:
    """Open the engine alone, for reading tables that are not ours."""
    if address.startswith("bigquery://"):
        return _bigquery(address, client, create=create)
    from ml_metrics.warehouse.sql import SqlStore

    return SqlStore(address, create=create)


def _bigquery(address: str, client: Any, *, create: bool) -> Store:
    parts = urlsplit(address)
    project, dataset = parts.netloc, parts.path.strip("/")
    if not project or not dataset or "/" in dataset:
        raise WarehouseError(f"{address}: should be bigquery://project/dataset")
    from ml_metrics.warehouse.bigquery import BigQueryStore

    return BigQueryStore(project, dataset, client, create=create)
