"""Which warehouse a command talks to."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

    from ml_metrics.warehouse import Warehouse


def add_warehouse(parser: argparse.ArgumentParser) -> None:
    """Declare `--warehouse`."""
    parser.add_argument(
        "--warehouse",
        metavar="ADDRESS",
        help="sqlite:///FILE, postgresql+psycopg://HOST/DATABASE or bigquery://PROJECT/DATASET; "
        "default: the SQLite file of the settings",
    )


def open_chosen(arguments: argparse.Namespace) -> Warehouse:
    """Open the warehouse that was asked for. Use it in a `with`."""
    from ml_metrics.settings import Settings
    from ml_metrics.warehouse import open_warehouse

    return open_warehouse(arguments.warehouse or f"sqlite:///{Settings.load().warehouse_file}")
