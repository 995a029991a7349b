"""Create, check and extend the tables in SQLite and PostgreSQL."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.schema import CreateColumn, CreateIndex, CreateTable

from ml_metrics.errors import WarehouseError
from ml_metrics.warehouse.sql_catalogue import read_catalogue
from ml_metrics.warehouse.tables import JOB_HISTORY, TABLES, Kind
from ml_metrics.warehouse.versions import SCHEMA_VERSION, Plan, version_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection, Dialect, Executable

    from ml_metrics.warehouse.sql_catalogue import Catalogue
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


MARK = re.compile(r"(?:ml-metrics schema |^)(\d+)")
"""The comment on `job_history` in PostgreSQL; SQLite has the number alone, in the head of the file."""

ONE_OF_EACH = {
    "sqlite": "DELETE FROM {table} WHERE rowid NOT IN (SELECT MAX(rowid) FROM {table} GROUP BY {key});",
    "postgresql": "DELETE FROM {table} WHERE ctid NOT IN (SELECT MAX(ctid) FROM {table} GROUP BY {key});",
}
"""A statement that leaves one row of each key."""


def is_up_to_date(connection: Connection, catalogue: Catalogue) -> bool:
    """Return whether no change is needed. Then a read-only user, or one behind a writer, can go on."""
    return catalogue.is_as_defined or (bool(catalogue.columns) and not _changes(connection))


def is_warehouse(connection: Connection) -> bool:
    """Return whether the database has the runs of this system or of the older one."""
    return sa.inspect(connection).has_table(JOB_HISTORY.name)


def ensure_tables(connection: Connection) -> None:
    """Bring every table to its definition. A table that is something else is rejected before any change."""
    if connection.dialect.name == "postgresql":
        connection.execute(sa.text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": SCHEMA_LOCK})
    changes = _changes(connection)
    for change in changes:
        connection.execute(change)
    if changes and marked_version(read_catalogue(connection)) < SCHEMA_VERSION:
        connection.execute(_mark(connection))


def plan_of(connection: Connection) -> Plan:
    """Return the version of the tables, and what `ensure_tables` would change. Nothing is changed."""
    inspector = sa.inspect(connection)
    names = set(inspector.get_table_names())
    present = {
        table.name: {column["name"] for column in inspector.get_columns(table.name)}
        for table in TABLES
        if table.name in names
    }
    changes = (str(change.compile(dialect=connection.dialect)) for change in _changes(connection))  # type: ignore[attr-defined]
    words = tuple(" ".join(change.split()) for change in changes)
    return Plan(version_of(present, marked_version(read_catalogue(connection))), words)


def marked_version(catalogue: Catalogue) -> int:
    """Return the version that is recorded beside the tables; 0 if none is."""
    found = MARK.search(catalogue.mark)
    return int(found[1]) if found else 0


def _mark(connection: Connection) -> Executable:
    """Return the statement that records the version, so that an older version of this package knows of a newer one."""
    if connection.dialect.name == "sqlite":
        return sa.text(f"PRAGMA user_version = {SCHEMA_VERSION}")
    return sa.text(f"COMMENT ON TABLE {JOB_HISTORY.name} IS 'ml-metrics schema {SCHEMA_VERSION}'")


def _changes(connection: Connection) -> list[Executable]:
    """Return the statements that bring every table to its definition."""
    inspector = sa.inspect(connection)
    present = set(inspector.get_table_names())
    existing = {table.name: inspector.get_columns(table.name) for table in TABLES if table.name in present}
    for table in TABLES:
        if table.name in existing:
            _check(connection, table, existing[table.name])
    changes: list[Executable] = []
    for table in TABLES:
        if table.name not in existing:
            changes += _creation(table.name, type(connection.dialect))  # type: ignore[arg-type]  # it has a hash
            continue
        defined = _definitions()[table.name]
        changes += _extensions(connection, table, defined, existing[table.name])
        indexes = {index["name"] for index in inspector.get_indexes(table.name)}
        key = inspector.get_pk_constraint(table.name)["constrained_columns"]
        if sorted(key) != sorted(table.key) and f"{table.name}_key" not in indexes:
            columns = ", ".join(table.key)
            _check_unique(connection, table)
            changes.append(sa.text(f"CREATE UNIQUE INDEX {table.name}_key ON {table.name} ({columns})"))
        missing = {index.name for index in defined.indexes} - indexes
        old = {name for index in table.page_indexes if index.name in missing for name in index.replaces} & indexes
        changes += [sa.text(f"DROP INDEX {name}") for name in sorted(old)]
        changes += [CreateIndex(index) for index in defined.indexes if index.name in missing]
    return changes


@cache
def _definitions() -> dict[str, sa.Table]:
    metadata = sa.MetaData()
    return {table.name: _defined(table, metadata) for table in TABLES}


@cache
def _creation(name: str, dialect: type[Dialect]) -> tuple[Executable, ...]:
    """Return the statements that make a table with its indexes. To compile them takes longer than to run them."""
    defined = _definitions()[name]
    made: list[Any] = [CreateTable(defined), *map(CreateIndex, sorted(defined.indexes, key=lambda one: str(one.name)))]
    texts = [str(one.compile(dialect=dialect())).replace("%", "%%") for one in made]
    return tuple(sa.DDL(each) for each in texts)  # type: ignore[no-untyped-call]


def _defined(table: Table, metadata: sa.MetaData) -> sa.Table:
    columns = [
        sa.Column(column.name, TYPES[column.kind], primary_key=column.name in table.key, nullable=not column.required)
        for column in table.columns
    ]
    indexes = [sa.Index(name, *names) for name, names in zip(table.index_names, table.indexes, strict=False)]
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

    known = set(table.names)
    for column in existing:
        is_optional = column["nullable"] or column.get("default") is not None or column.get("autoincrement") is True
        if column["name"] not in known and not is_optional:
            raise WarehouseError(
                f"table {table.name}, column {column['name']}: must have a value, and ML Metrics (schema "
                f"{SCHEMA_VERSION}) does not know it. Nothing was written; upgrade ML Metrics if a newer version added "
                "the column, or let it be null."
            )


def _check_unique(connection: Connection, table: Table) -> None:
    """Raise an error that states what to do if rows have the same key: the older system wrote some runs twice."""
    key = ", ".join(table.key)
    doubled = connection.execute(
        sa.text(f"SELECT {key}, COUNT(*) FROM {table.name} GROUP BY {key} HAVING COUNT(*) > 1 ORDER BY {key}")  # noqa: S608
    ).fetchall()
    if doubled:
        example = " and ".join(f"{name} {value!r}" for name, value in zip(table.key, doubled[0], strict=False))
        statement = ONE_OF_EACH[connection.dialect.name].format(table=table.name, key=key)
        raise WarehouseError(
            f"table {table.name}: {len(doubled)} runs have several rows, such as {example} with {doubled[0][-1]}, "
            f"so that no run can be replaced. Nothing was written. Keep a copy of the table, then leave one row of "
            f"each: {statement}"
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
