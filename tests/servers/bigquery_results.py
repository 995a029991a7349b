"""The results of the BigQuery emulator's queries, as rows of its process.

local-bigquery runs a query once for its columns and twice to write a table, which it then counts and reads.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, NamedTuple

from local_bigquery.catalog import names, tabledata, tables
from local_bigquery.engine import database, results, types
from local_bigquery.errors import not_found

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from duckdb.sqltypes import DuckDBPyType
    from local_bigquery.models import TableFieldSchema

KEPT_RESULTS = 64
"""So many results are kept: a client reads each at once."""


class Result(NamedTuple):
    """The columns and the rows of a query, as the API writes them."""

    fields: list[TableFieldSchema]
    rows: list[str]


_results: OrderedDict[tuple[str, ...], Result] = OrderedDict()
_write, _list_rows = tables.write, tabledata.list_rows


def install() -> None:
    """Replace what writes and reads a result."""
    tables.write, tabledata.list_rows = write, list_rows


def write(
    cursor: DuckDBPyConnection, query: str, parameters: Any, table: tuple[str, ...], *others: Any, **named: Any
) -> bool:
    if table[1] != tables.RESULTS:
        return bool(_write(cursor, query, parameters, table, *others, **named))
    found = cursor.sql(query, params=parameters)
    found = found.project(", ".join(map(_stored, found.columns, found.types)))
    columns = list(zip(found.columns, found.types, strict=True))
    rows = [row for (row,) in found.project(types.row(columns)).fetchall()]
    _results[table] = Result([types.field(*column) for column in columns], rows)
    while len(_results) > KEPT_RESULTS:
        _results.popitem(last=False)
    return True


def _stored(name: str, kind: DuckDBPyType) -> str:
    quoted = database.quote(name)
    return f"{results._without_null_elements(types.cast(quoted, kind), name, kind)} AS {quoted}"


def list_rows(project: str, dataset: str, table: str, most: int | None, start: int, *others: Any) -> Any:
    if dataset != tables.RESULTS:
        return _list_rows(project, dataset, table, most, start, *others)
    if (found := _results.get((project, dataset, table))) is None:
        raise not_found("Table", names.label(project, dataset, table))
    total = len(found.rows)
    rows = found.rows[start : total if most is None else start + most]
    end = start + len(rows)
    return results.Page(rows, total, str(end) if end < total else None), found.fields
