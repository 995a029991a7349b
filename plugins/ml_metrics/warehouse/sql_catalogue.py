"""What a database says about its tables, in one statement: enough to know that nothing has to be changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import text

from ml_metrics.warehouse.tables import TABLES, Kind

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from ml_metrics.warehouse.tables import Column, Table

NAMES = ", ".join(f"'{table.name}'" for table in TABLES)
CATALOGUE = {
    "sqlite": f"""
        SELECT 'version' AS about, '' AS table_name, CAST(user_version AS TEXT) AS name, '' AS type, 0 AS is_required
        FROM pragma_user_version
        UNION ALL
        SELECT 'column', t.name, c.name, c.type, c."notnull" AND c.dflt_value IS NULL
        FROM sqlite_master AS t JOIN pragma_table_info(t.name) AS c WHERE t.type = 'table' AND t.name IN ({NAMES})
        UNION ALL
        SELECT 'key', t.name, c.name, '', 0
        FROM sqlite_master AS t JOIN pragma_table_info(t.name) AS c
        WHERE t.type = 'table' AND t.name IN ({NAMES}) AND c.pk > 0
        UNION ALL
        SELECT 'index', tbl_name, name, '', 0 FROM sqlite_master WHERE type = 'index' AND tbl_name IN ({NAMES})
    """,  # noqa: S608  (names of our own)
    "postgresql": f"""
        WITH ours AS (
            SELECT c.oid, relname FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = relnamespace
            WHERE relname IN ({NAMES}) AND relkind IN ('r', 'p') AND nspname = current_schema()
        )
        SELECT 'version' AS about, '' AS table_name, obj_description(oid, 'pg_class') AS name, '' AS type,
            FALSE AS is_required
        FROM ours WHERE relname = 'job_history'
        UNION ALL
        SELECT 'column', relname, attname, format_type(atttypid, NULL),
            attnotnull AND NOT atthasdef AND attidentity = ''
        FROM ours JOIN pg_attribute ON attrelid = oid WHERE attnum > 0 AND NOT attisdropped
        UNION ALL
        SELECT 'key', relname, attname, '', FALSE
        FROM ours JOIN pg_index ON indrelid = ours.oid AND indisprimary
        JOIN pg_attribute ON attrelid = ours.oid AND attnum = ANY(indkey::smallint[])
        UNION ALL
        SELECT 'index', ours.relname, made.relname, '', FALSE
        FROM ours JOIN pg_index ON indrelid = ours.oid JOIN pg_class AS made ON made.oid = indexrelid
    """,  # noqa: S608
}
"""One statement for each engine: the version, and the columns, keys and indexes of our tables."""

PLAIN_TYPES = {
    Kind.STRING: {"text", "character varying"},
    Kind.INTEGER: {"bigint", "integer"},
    Kind.FLOAT: {"double precision", "double"},
    Kind.TIMESTAMP: {"timestamp", "timestamp with time zone", "timestamp without time zone"},
}
"""The usual names of the types that a column may have. Any other name is looked at more closely."""


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The tables of a database, as far as they are ours."""

    mark: str
    """What is recorded as the version of the tables; empty if nothing is."""
    columns: dict[str, dict[str, tuple[str, bool]]]
    """Of each table: the type of each column, and whether a row must give a value for it."""
    keys: dict[str, set[str]]
    """Of each table: the columns of its primary key."""
    indexes: dict[str, set[str]]
    """Of each table: the names of its indexes."""

    @property
    def is_as_defined(self) -> bool:
        """Whether every table is plainly as defined. False says nothing: a closer look may find the same."""
        return all(self._is_as_defined(table) for table in TABLES)

    def _is_as_defined(self, table: Table) -> bool:
        columns, indexes = self.columns.get(table.name, {}), self.indexes.get(table.name, set())
        has_key = self.keys.get(table.name) == set(table.key) or f"{table.name}_key" in indexes
        return (
            has_key
            and all(_is_plain(column, columns.get(column.name)) for column in table.columns)
            and not any(is_required for name, (_, is_required) in columns.items() if name not in table.names)
            and indexes.issuperset(table.index_names)
        )


def read_catalogue(connection: Connection) -> Catalogue:
    """Return what the database has of our tables. This is one statement."""
    found = Catalogue("", {}, {}, {})
    mark = ""
    for about, table, name, kind, is_required in connection.execute(text(CATALOGUE[connection.dialect.name])):
        match about:
            case "version":
                mark = name or ""
            case "column":
                found.columns.setdefault(table, {})[name] = (kind.lower(), bool(is_required))
            case "key":
                found.keys.setdefault(table, set()).add(name)
            case _:
                found.indexes.setdefault(table, set()).add(name)
    return Catalogue(mark, found.columns, found.keys, found.indexes)


def _is_plain(column: Column, found: tuple[str, bool] | None) -> bool:
    if found is None:
        return False
    kind, is_required = found
    return any(kind in PLAIN_TYPES[one] for one in (column.kind, *column.also)) and (column.required or not is_required)
