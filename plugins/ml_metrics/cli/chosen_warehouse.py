"""Which warehouse a command talks to."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from ml_metrics.settings import Settings
    from ml_metrics.warehouse import Warehouse

AIRFLOW = "airflow"
"""The word for the connection that runs use: it is asked for by name, because to import Airflow takes seconds."""


def add_warehouse(parser: argparse.ArgumentParser) -> None:
    """Declare `--warehouse`."""
    parser.add_argument(
        "--warehouse",
        metavar="ADDRESS",
        help="sqlite:///FILE, postgresql+psycopg://HOST/DATABASE, bigquery://PROJECT/DATASET, or `airflow` for the "
        "connection that Airflow's runs use; default: that connection if a variable AIRFLOW_CONN_... defines it, else "
        "the SQLite file of the settings",
    )


@contextmanager
def open_chosen(arguments: argparse.Namespace) -> Iterator[Warehouse]:
    """Open the warehouse that was asked for, and tell a person on standard error which one that is."""
    with _opened(arguments.warehouse) as warehouse:
        if not getattr(arguments, "json", False):
            print(f"warehouse: {warehouse.address}", file=sys.stderr)
        yield warehouse


def _opened(address: str | None) -> AbstractContextManager[Warehouse]:
    from ml_metrics.settings import Settings
    from ml_metrics.warehouse import open_warehouse

    settings = Settings.load()
    if address == AIRFLOW or (address is None and _has_variable(settings)):
        from ml_metrics.connections import warehouse

        return warehouse()
    return open_warehouse(address or f"sqlite:///{settings.warehouse_file}")


def _has_variable(settings: Settings) -> bool:
    return f"AIRFLOW_CONN_{settings.warehouse_conn_id.upper()}" in os.environ
