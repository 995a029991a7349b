"""The BigQuery emulator with its tables in memory. Python in .venv-bigquery runs this, in place of `local-bigquery`.

local-bigquery stores the tables of a project in a DuckLake: files, and a catalogue that each statement reads as a
whole. Tables of DuckDB itself have the same SQL and the same transactions, for a third of the time. It also translates
each statement anew, and keeps its own records as rows: `bigquery_translations` and `bigquery_records`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import bigquery_records
import bigquery_translations
from local_bigquery import cli, errors
from local_bigquery.engine import database

if TYPE_CHECKING:
    import duckdb

CONFLICT = re.compile(r"(?P<name>Conflict on tuple deletion|Conflict on update|[Ww]rite-write conflict)")
ABORTED = "Transaction is aborted due to concurrent update"


def attach(connection: duckdb.DuckDBPyConnection, project: str) -> None:
    connection.execute(f"ATTACH IF NOT EXISTS ':memory:' AS {database.quote(project)}")
    database._attached.add(project)


def projects() -> list[str]:
    return sorted(database._attached)


def main() -> None:
    database._attach, database.projects = attach, projects
    errors.DUCKDB_ERRORS.insert(0, (CONFLICT, "invalidQuery", ABORTED))  # as BigQuery says it
    bigquery_records.install()
    bigquery_translations.install()
    cli.main()


if __name__ == "__main__":
    main()
