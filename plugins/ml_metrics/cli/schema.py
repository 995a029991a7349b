"""Create the tables that are missing, and add the columns that older tables lack; no row is lost. Runs do the same when
they first write, so use this command where the runs have no right to create tables.

examples:
  ml-metrics schema --warehouse bigquery://my-project/metrics_handler_dataset
  ml-metrics schema --claim --deployment prod
  ml-metrics schema --show
"""

from __future__ import annotations

from dataclasses import asdict
from textwrap import fill
from typing import TYPE_CHECKING, Any

from ml_metrics.cli.arguments import add_json
from ml_metrics.cli.chosen_warehouse import add_warehouse, open_chosen
from ml_metrics.cli.output import WIDTH, counted, print_json, table
from ml_metrics.warehouse.tables import TABLES

if TYPE_CHECKING:
    import argparse

    from ml_metrics.warehouse.tables import Table

TABLE_FIELDS = ("name", "about", "key", "partition", "cluster")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `schema`."""
    add_warehouse(parser, json=False)
    parser.add_argument(
        "--claim",
        action="store_true",
        help="give the runs that an older version recorded without a deployment to the deployment that ran them,"
        " where their keys prove it: this one, or --deployment",
    )
    parser.add_argument("--show", action="store_true", help="only print the definitions; open no warehouse")
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Create or update the tables, and print them."""
    claim = None
    if not arguments.show:
        with open_chosen(arguments, create=True) as warehouse:
            warehouse.ensure_schema()
            claim = warehouse.claim_runs() if arguments.claim else None
    if arguments.json:
        print_json({"tables": [_document(one) for one in TABLES]} | ({} if claim is None else asdict(claim)))
    elif arguments.show:
        print("\n\n".join(_definition(one) for one in TABLES))
    else:
        for one in TABLES:
            print(f"{one.name}: {len(one.columns)} columns")
    if claim is not None and not arguments.json:
        left = f"; {counted(claim.left, 'run')} of others, or without a proof, still belong to every deployment"
        print(f"{counted(claim.claimed, 'run')} claimed{left if claim.left else ''}")
    return 0


def _definition(one: Table) -> str:
    rows = [(column.name, str(column.kind), "required" if column.required else "") for column in one.columns]
    return f"{one.name}\n{fill(one.about, WIDTH)}\n{table(('column', 'type', ''), rows)}"


def _document(one: Table) -> dict[str, Any]:
    columns = [
        {"name": column.name, "type": column.kind, "required": column.required, "about": column.about}
        for column in one.columns
    ]
    return {name: getattr(one, name) for name in TABLE_FIELDS} | {"columns": columns}
