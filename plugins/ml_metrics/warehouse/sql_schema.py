"""The tables in SQLite and PostgreSQL: made, checked, extended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.schema import CreateColumn, CreateIndex, CreateTable

from ml_metrics.errors import WarehouseError
from ml_metrics.warehouse.tables import TABLES, Kind

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from ml_metrics.warehouse.tables import Column, Table

TYPES: dict[Kind, sa.types.TypeEngine[Any]] = {
    Kind.STRING: sa.Text(),
    Kind.INTEGER: sa.BigInteger(),
    Kind.FLOAT: sa.Double(),
    Kind.TIMESTAMP: sa.TIMESTAMP(timezone=True),
}

READS_AS = {
    Kind.STRING: (sa.types.String, sa.types.Uuid),
    Kind.INTEGER: (sa.types.Integer,),
    Kind.FLOAT: (sa.types.Float, sa.types.Numeric),
    Kind.TIMESTAMP: (sa.types.DateTime,),
}
"""What the type of an existing column may be."""

SCHEMA_LOCK = 7146_0001
"""PostgreSQL's advisory lock of those who make tables: `IF NOT EXISTS` alone fails when two try at once."""


def ensure_tables(connection: Connection) -> None:
    """Bring every table to its definition. Refuses, before it changes anything, a table that is something else."""
    if connection.dialect.name == "postgresql":
        connection.execute(sa.text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": SCHEMA_LOCK})
    inspector = sa.inspect(connection)
    present = set(inspector.get_table_names())
    existing = {table.name: inspector.get_columns(table.name) for table in TABLES if table.name in present}
    for table in TABLES:
        if table.name in existing:
            _check(connection, table, existing[table.name])
    metadata = sa.MetaData()
    for table in TABLES:
        defined = _defined(table, metadata)
        if table.name in existing:
            _extend(connection, table, defined, existing[table.name])
        else:
            connection.execute(CreateTable(defined))
        for index in defined.indexes:
            connection.execute(CreateIndex(index, if_not_exists=True))


def _defined(table: Table, metadata: sa.MetaData) -> sa.Table:
    columns = [
        sa.Column(column.name, TYPES[column.kind], primary_key=column.name in table.key, nullable=not column.required)
        for column in table.columns
    ]
    indexes = [sa.Index(f"{table.name}_by_{'_'.join(names)}", *names) for names in table.indexes]
    partial = [
        sa.Index(one.name, *one.columns, sqlite_where=sa.text(one.where), postgresql_where=sa.text(one.where))
        for one in table.partial_indexes
    ]
    # Without rowids SQLite keeps the rows of a run side by side, in the order of the key.
    return sa.Table(table.name, metadata, *columns, *indexes, *partial, sqlite_with_rowid=False)


def _check(connection: Connection, table: Table, existing: list[Any]) -> None:
    found = {column["name"]: column["type"] for column in existing}
    for column in table.columns:
        if column.name not in found and column.required:
            raise WarehouseError(
                f"table {table.name} has no column {column.name}, so it is not one of ours or the older system's. "
                "Give another database, or rename the table; `ml-metrics import` reads tables of another shape."
            )
        if column.name in found and not isinstance(found[column.name], _accepted(column)):
            wanted = TYPES[column.kind].compile(connection.dialect)
            raise WarehouseError(
                f"table {table.name}, column {column.name}: is of type {found[column.name]} and should be {wanted}. "
                "Nothing was written; change the column or give another database."
            )


def _accepted(column: Column) -> tuple[type, ...]:
    return tuple(kind for name in (column.kind, *column.also) for kind in READS_AS[name])


def _extend(connection: Connection, table: Table, defined: sa.Table, existing: list[Any]) -> None:
    found = {column["name"]: column for column in existing}
    for column in table.columns:
        if column.name not in found:
            words = CreateColumn(defined.c[column.name]).compile(dialect=connection.dialect)
            connection.exec_driver_sql(f"ALTER TABLE {table.name} ADD COLUMN {words}")
        elif not column.required and not found[column.name]["nullable"]:
            _allow_null(connection, table, column)
    key = ", ".join(table.key)
    connection.exec_driver_sql(f"CREATE UNIQUE INDEX IF NOT EXISTS {table.name}_key ON {table.name} ({key})")


def _allow_null(connection: Connection, table: Table, column: Column) -> None:
    if connection.dialect.name == "sqlite":
        raise WarehouseError(
            f"table {table.name}, column {column.name}: must allow null, and SQLite cannot change that in place. "
            "Give another file; `ml-metrics import` copies the rows."
        )
    connection.exec_driver_sql(f"ALTER TABLE {table.name} ALTER COLUMN {column.name} DROP NOT NULL")
