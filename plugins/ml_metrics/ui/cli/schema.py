"""Create the tables that are missing, and add the columns that older tables lack; no row is lost. Runs do the same,
unless they have no right to create tables. Newer tables stay as they are, with their newer columns empty.

examples:
  ml-metrics schema --warehouse bigquery://my-project/metrics_handler_dataset
  ml-metrics schema upgrade --dry-run
  ml-metrics schema --claim --deployment prod
"""

from __future__ import annotations

from dataclasses import asdict
from textwrap import fill
from typing import Any

from ml_metrics.core.text import counted
from ml_metrics.ui.cli.arguments import Arguments, Parser, add_flag, add_json
from ml_metrics.ui.cli.chosen_warehouse import add_warehouse, open_chosen
from ml_metrics.ui.cli.output import WIDTH, give, table
from ml_metrics.ui.dashboard.page import Columns
from ml_metrics.warehouse import SCHEMA_VERSION, TABLES, VERSIONS, Table


def add_arguments(parser: Parser) -> None:
    add_warehouse(parser, json=False)
    add_flag(
        parser,
        "--claim",
        "give runs recorded without a deployment to the one that ran them, where their keys prove it: this one, or "
        "--deployment",
    )
    parser.add_argument("action", nargs="?", choices=["upgrade"], default="upgrade", help="the default")
    add_flag(parser, "--dry-run", "only print changes")
    add_flag(parser, "--show", "only print the definitions; open no warehouse")
    add_json(parser)


def run(arguments: Arguments) -> int:
    claim, version = None, SCHEMA_VERSION
    if arguments.dry_run:
        return _dry_run(arguments)
    if not arguments.show:
        with open_chosen(arguments, create=True) as warehouse:
            warehouse.ensure_schema()
            version = warehouse.plan_schema().version
            claim = warehouse.claim_runs() if arguments.claim else None
    if arguments.show:
        lines = ["\n\n".join([f"schema {SCHEMA_VERSION}", *map(_definition, TABLES)])]
    else:
        lines = [_standing(version), *(f"{one.name}: {len(one.columns)} columns" for one in TABLES)]
    document: dict[str, Any] = {"version": SCHEMA_VERSION, "tables": list(map(_document, TABLES))}
    if claim is not None:
        document |= asdict(claim)
        left = f"; {counted(claim.left, 'run')} of others, or without a proof, still belong to every deployment"
        lines.append(f"{counted(claim.claimed, 'run')} claimed{left if claim.left else ''}")
    give(arguments, document, lines)
    return 0


def _dry_run(arguments: Arguments) -> int:
    arguments.deployment = None  # whether it has runs is a query, and the first query changes older tables
    with open_chosen(arguments) as warehouse:
        plan = warehouse.plan_schema()
    changes = [f"would {change}" if change[:1].islower() else f"would run: {change}" for change in plan.changes]
    end = "Nothing was changed." if changes else "There is nothing to change."
    document = {"version": plan.version, "newest": SCHEMA_VERSION, "changes": list(plan.changes)}
    give(arguments, document, [_standing(plan.version), *changes, end])
    return 0


def _standing(version: int) -> str:
    if version > SCHEMA_VERSION:
        return f"schema {version}, of a newer version of ML Metrics: this one knows {SCHEMA_VERSION}"
    missing = "; ".join(VERSIONS[version:])
    return f"schema {version} of {SCHEMA_VERSION}" + (f"; missing: {missing}" if missing else "")


def _definition(one: Table) -> str:
    rows = [(column.name, str(column.kind), "required" if column.required else "") for column in one.columns]
    return f"{one.name}\n{fill(one.about, WIDTH)}\n{table(('column', 'type', ''), rows)}"


def _document(one: Table) -> dict[str, Any]:
    columns = Columns("name type=kind required about").documents(one.columns)
    return Columns("name about key partition cluster").document(one) | {"columns": columns}
