"""Create, check and extend the tables in SQLite and PostgreSQL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.schema import CreateColumn, CreateIndex, CreateTable

from ml_metrics.errors import WarehouseError
from ml_metrics.warehouse.tables import JOB_HISTORY, TABLES, Kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection, Executable

    from ml_metrics.warehouse.tables import Column, PageIndex, Table

TYPES: dict[Kind, sa.types.TypeEngine[Any]] = {
    Kind.STRING: sa.Text(),
    Kind.INTEGER: sa.BigInteger(),
    Kind.FLOAT: sa.Double(),
    Kind.TIMESTAMP: sa.TIMESTAMP(timezone=True),
}

ACCEPTED_TYPES = {
    Kind.STRING: (sa.types.String, sa.types.Uuid),
    Kind.INTEGER: (sa.types.Integer,),
    Kind.FLOAT: (sa.types.Float, sa.types.Numeric),
    Kind.TIMESTAMP: (sa.types.DateTime,),
}
"""The types that an existing column may have."""

SCHEMA_LOCK = 7146_0001
"""The advisory lock for creating tables in PostgreSQL: `IF NOT EXISTS` fails when two processes try at once."""


def is_up_to_date(connection: Connection) -> bool:
    """Return whether no change is needed. Then a read-only user, or one behind a writer, can go on."""
    return not _changes(connection)


def is_warehouse(connection: Connection) -> bool:
    """Return whether the database has the runs of this system or of the older one."""
    return sa.inspect(connection).has_table(JOB_HISTORY.name)


def ensure_tables(connection: Connection) -> None:
    """Bring every table to its definition. A table that is something else is rejected before any change."""
    if connection.dialect.name == "postgresql":
        connection.execute(sa.text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": SCHEMA_LOCK})
    for change in _changes(connection):
        connection.execute(change)


def _changes(connection: Connection) -> list[Executable]:
    """Return the statements that bring every table to its definition."""
    inspector = sa.inspect(connection)
    present = set(inspector.get_table_names())
    existing = {table.name: inspector.get_columns(table.name) for table in TABLES if table.name in present}
    for table in TABLES:
        if table.name in existing:
            _check(connection, table, existing[table.name])
    metadata = sa.MetaData()
    changes: list[Executable] = []
    for table in TABLES:
        defined, indexes = _defined(table, metadata), set()
        if table.name in existing:
            changes += _extensions(connection, table, defined, existing[table.name])
            indexes = {index["name"] for index in inspector.get_indexes(table.name)}
            key = inspector.get_pk_constraint(table.name)["constrained_columns"]
            if sorted(key) != sorted(table.key) and f"{table.name}_key" not in indexes:
                columns = ", ".join(table.key)
                changes.append(sa.text(f"CREATE UNIQUE INDEX {table.name}_key ON {table.name} ({columns})"))
        else:
            changes.append(CreateTable(defined))
        missing = {index.name for index in defined.indexes} - indexes
        old = {name for index in table.page_indexes if index.name in missing for name in index.replaces} & indexes
        changes += [sa.text(f"DROP INDEX {name}") for name in sorted(old)]
        changes += [CreateIndex(index) for index in defined.indexes if index.name in missing]
    return changes


def _defined(table: Table, metadata: sa.MetaData) -> sa.Table:
    columns = [
        sa.Column(column.name, TYPES[column.kind], primary_key=column.name in table.key, nullable=not column.required)
        for column in table.columns
    ]
    indexes = [sa.Index(f"{table.name}_by_{'_'.join(names)}", *names) for names in table.indexes]
    page_indexes = [_page_index(one) for one in table.page_indexes]
    # Without rowids, SQLite stores rows in the order of the key, so that the rows of a run are together.
    return sa.Table(table.name, metadata, *columns, *indexes, *page_indexes, sqlite_with_rowid=False)


def _page_index(index: PageIndex) -> sa.Index:
    where = None if index.where is None else sa.text(index.where)
    return sa.Index(
        index.name, *index.columns, sqlite_where=where, postgresql_where=where, postgresql_include=index.include
    )


def _check(connection: Connection, table: Table, existing: list[Any]) -> None:
    found = {column["name"]: column["type"] for column in existing}
    for column in table.columns:
        if column.name not in found and column.required:
            raise WarehouseError(
                f"table {table.name} has no column {column.name}, so it belongs to another system. "
                "Give another database, or rename the table; `ml-metrics import` reads tables of another shape."
            )
        if column.name in found and not isinstance(found[column.name], _accepted(column)):
            wanted = TYPES[column.kind].compile(connection.dialect)
            raise WarehouseError(
                f"table {table.name}, column {column.name}: is of type {found[column.name]} and should be {wanted}. "
                "Nothing was written; change the column or give another database."
            )


def _accepted(column: Column) -> tuple[type, ...]:
    return tuple(kind for name in (column.kind, *column.also) for kind in ACCEPTED_TYPES[name])


def _extensions(connection: Connection, table: Table, defined: sa.Table, existing: list[Any]) -> Iterator[Executable]:
    found = {column["name"]: column for column in existing}
    for column in table.columns:
        if column.name not in found:
            definition = CreateColumn(defined.c[column.name]).compile(dialect=connection.dialect)
            yield sa.text(f"ALTER TABLE {table.name} ADD COLUMN {definition}")
        elif not column.required and not found[column.name]["nullable"]:
            yield _allow_null(connection, table, column)


def _allow_null(connection: Connection, table: Table, column: Column) -> Executable:
    if connection.dialect.name == "sqlite":
        raise WarehouseError(
            f"table {table.name}, column {column.name}: must allow null, and SQLite cannot change that in place. "
            "Give another file; `ml-metrics import` copies the rows."
        )
    return sa.text(f"ALTER TABLE {table.name} ALTER COLUMN {column.name} DROP NOT NULL")
