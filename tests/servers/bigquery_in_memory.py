"""The BigQuery emulator with its tables in memory. Python in .venv-bigquery runs this, in place of `local-bigquery`.

local-bigquery stores the tables of a project in a DuckLake: files, and a catalogue that each statement reads as a
whole. Tables of DuckDB itself have the same SQL and the same transactions, for a third of the time. It also translates
each statement anew, keeps its own records and all results in tables, and answers through FastAPI: see the
`bigquery_*.py` beside this one.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import bigquery_http
import bigquery_records
import bigquery_results
import bigquery_translations
from local_bigquery import errors
from local_bigquery.engine import database
from local_bigquery.settings import settings

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
    sys.modules["pandas"] = None  # type: ignore[assignment]  # DuckDB looks for it with each parameter, in all folders
    bigquery_records.install()
    bigquery_results.install()
    bigquery_translations.install()
    port, folder, project = sys.argv[1:]
    settings.data_dir, settings.default_project_id = Path(folder), project
    database.connection().execute("SET threads = 1")
    bigquery_http.Server(("127.0.0.1", int(port)), bigquery_http.Handler).serve_forever()


if __name__ == "__main__":
    main()
