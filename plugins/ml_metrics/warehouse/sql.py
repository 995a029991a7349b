"""SQLite and PostgreSQL, through SQLAlchemy."""

from __future__ import annotations

import json
import re
import sqlite3
import time
from collections import defaultdict
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy import BindParameter, TextClause, bindparam, create_engine, event, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, SQLAlchemyError
from sqlalchemy.schema import CreateColumn, CreateIndex, CreateTable

from ml_metrics.core.errors import ConfigError, WarehouseError
from ml_metrics.core.extras import require
from ml_metrics.core.values import BEGINNING_OF_TIME, as_utc
from ml_metrics.warehouse.tables import (
    PARAMETER,
    RUN_TABLES,
    SCHEMA_VERSION,
    TABLES,
    ExistingColumn,
    Kind,
    Plan,
    check,
    version_of,
    warn_if_newer,
)

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping, Sequence

    from sqlalchemy import Connection, Dialect, Engine, Executable
    from sqlalchemy.engine import URL

    from ml_metrics.warehouse.record import RunRecord
    from ml_metrics.warehouse.tables import Table


OPTIONS = frozenset({
    "application_name", "channel_binding", "connect_timeout", "fallback_application_name", "gssdelegation",
    "gssencmode", "gsslib", "hostaddr", "keepalives", "keepalives_count", "keepalives_idle", "keepalives_interval",
    "krbsrvname", "load_balance_hosts", "options", "passfile", "require_auth", "requirepeer",
    "ssl_max_protocol_version", "ssl_min_protocol_version",
    "sslcert", "sslcertmode", "sslcompression", "sslcrl", "sslcrldir", "sslkey", "sslmode",
    "sslnegotiation", "sslpassword", "sslrootcert", "sslsni", "target_session_attrs", "tcp_user_timeout",
})  # fmt: skip
"""Those of libpq 17 that are about the connection. Address, login and database are fields of the connection."""
SSL_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")


def libpq_options(conn_id: str, extra: str | None) -> dict[str, str]:
    """The options in the extra of a connection, a JSON object.

    Raises:
        ConfigError: the extra is no object, or has an option that libpq does not know or a value that is none: a
            connection that is not as written is not opened at all.
    """
    where = f"connection `{conn_id}`"
    try:
        found = json.loads(extra) if extra and extra.strip() else {}
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise ConfigError(f'{where}: its extra should be a JSON object such as {{"sslmode": "verify-full"}}')
    for name, value in found.items():
        if name not in OPTIONS:
            raise ConfigError(
                f"{where}: {name!r} in its extra is not an option of PostgreSQL's client library, so that it would "
                f"have no effect. Remove it, or correct its name: {', '.join(sorted(OPTIONS))}"
            )
        if not isinstance(value, str | int) or "\0" in str(value):
            raise ConfigError(f"{where}: {name!r} in its extra should be a text or a whole number")
    options = {name: str(int(value) if isinstance(value, bool) else value) for name, value in found.items()}
    if options.get("sslmode", SSL_MODES[0]) not in SSL_MODES:
        raise ConfigError(f"{where}: `sslmode` in its extra should be one of {', '.join(SSL_MODES)}")
    return options


NAMES = ", ".join(f"'{table.name}'" for table in TABLES)
CATALOGUE = {
    "sqlite": f"""
        SELECT 'version' AS about, '' AS table_name, CAST(user_version AS TEXT) AS name, '' AS type,
            0 AS is_required, 0 AS has_default
        FROM pragma_user_version
        UNION ALL
        SELECT 'column', t.name, c.name, c.type, c."notnull", c.dflt_value IS NOT NULL
        FROM sqlite_master AS t JOIN pragma_table_info(t.name) AS c WHERE t.type = 'table' AND t.name IN ({NAMES})
        UNION ALL
        SELECT 'key', t.name, c.name, '', 0, 0
        FROM sqlite_master AS t JOIN pragma_table_info(t.name) AS c
        WHERE t.type = 'table' AND t.name IN ({NAMES}) AND c.pk > 0
        UNION ALL
        SELECT 'index', tbl_name, name, '', 0, 0 FROM sqlite_master WHERE type = 'index' AND tbl_name IN ({NAMES})
    """,
    "postgresql": f"""
        WITH ours AS (
            SELECT c.oid, relname FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = relnamespace
            WHERE relname IN ({NAMES}) AND relkind IN ('r', 'p') AND nspname = current_schema()
        )
        SELECT 'version' AS about, '' AS table_name, obj_description(oid, 'pg_class') AS name, '' AS type,
            FALSE AS is_required, FALSE AS has_default
        FROM ours WHERE relname = 'job_history'
        UNION ALL
        SELECT 'column', relname, attname, format_type(atttypid, NULL), attnotnull, atthasdef OR attidentity <> ''
        FROM ours JOIN pg_attribute ON attrelid = oid WHERE attnum > 0 AND NOT attisdropped
        UNION ALL
        SELECT 'key', relname, attname, '', FALSE, FALSE
        FROM ours JOIN pg_index ON indrelid = ours.oid AND indisprimary
        JOIN pg_attribute ON attrelid = ours.oid AND attnum = ANY(indkey::smallint[])
        UNION ALL
        SELECT 'index', ours.relname, made.relname, '', FALSE, FALSE
        FROM ours JOIN pg_index ON indrelid = ours.oid JOIN pg_class AS made ON made.oid = indexrelid
    """,
}
"""One statement for each engine: the version, and the columns, keys and indexes of our tables."""

TYPE_NAMES = {
    Kind.STRING: re.compile(r"(\w*text|uuid|clob|\w*char|character)\b[^[]*"),
    Kind.INTEGER: re.compile(r"(big|medium|small|tiny)?int(eger|\d)?\b[^[]*"),
    Kind.FLOAT: re.compile(r"(double|float|real|numeric|decimal)\b[^[]*"),
    Kind.TIMESTAMP: re.compile(r"(timestamp|datetime)\b[^[]*"),
}
"""The names of the types that an existing column may have. A `[` is in those of arrays."""

MARK = re.compile(r"(?:ml-metrics schema |^)(\d+)")
"""The comment on `job_history` in PostgreSQL; SQLite has the number alone, in the head of the file."""


@dataclass(slots=True)
class Catalogue:
    """The tables of a database, as far as they are ours."""

    marked: int = 0
    """The version that is recorded beside the tables; 0 if none is."""
    columns: defaultdict[str, dict[str, ExistingColumn]] = field(default_factory=lambda: defaultdict(dict))
    keys: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """Of each table: the columns of its primary key."""
    indexes: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """Of each table: the names of its indexes."""


def read_catalogue(connection: Connection) -> Catalogue:
    """What the database has of our tables. This is one statement."""
    found = Catalogue()
    for about, table, name, kind, is_required, has_default in connection.execute(
        text(CATALOGUE[connection.dialect.name])
    ):
        match about:
            case "version":
                mark = MARK.search(name or "")
                found.marked = int(mark[1]) if mark else 0
            case "column":
                kinds = [known for known, names in TYPE_NAMES.items() if names.fullmatch(kind.lower())]
                found.columns[table][name] = ExistingColumn(kind.upper(), kinds, not is_required, bool(has_default))
            case "key":
                found.keys[table].add(name)
            case _:
                found.indexes[table].add(name)
    return found


BUSY_TIMEOUT_SECONDS = 60
"""How long a writer of an SQLite file waits for other writers. A load locks the file for milliseconds."""
PAUSE_SECONDS = 0.02
CACHE_KIB = 16_000
"""How much of the file a connection keeps in memory: the indexes that pages read, instead of the 2 MB of SQLite."""


def engine_of(url: URL, *, create: bool) -> Engine:
    """An engine for an address. An SQLite file's missing folder is created, or the missing file is an error."""
    if url.get_backend_name() != "sqlite":
        if url.get_driver_name() == "psycopg":
            require("postgres", url.render_as_string())  # its password is masked
        # a database without a locale has no encoding, and psycopg would return bytes
        return create_engine(url, pool_pre_ping=True, connect_args={"client_encoding": "utf8"})
    if url.database and url.database != ":memory:":
        file = Path(url.database).expanduser()
        _prepare_file(file, create=create)
        url = url.set(database=str(file))
    engine = create_engine(url, connect_args={"timeout": BUSY_TIMEOUT_SECONDS})
    event.listen(engine, "connect", _prepare_writer if create else _prepare_reader)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_file(file: Path, *, create: bool) -> None:
    try:
        if create:
            file.parent.mkdir(parents=True, exist_ok=True)
        exists = create or file.exists()
    except OSError as error:
        verb = "created" if create else "read"
        raise WarehouseError(f"{file}: its folder cannot be {verb}: {error.strerror}") from error
    if not exists:
        raise WarehouseError(
            f"{file}: there is no such file. Check the address; the file of a warehouse is created when its first run "
            "is loaded."
        )


SYNCHRONOUS = "FULL"
"""A commit to a file waits until it is on the disk: a machine that loses power loses no run."""


def _prepare_reader(connection: Any, _: Any) -> None:
    """Begin transactions ourselves. The journal mode of an existing file is kept: it may belong to another system."""
    connection.isolation_level = None
    connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")


def _prepare_writer(connection: Any, record: Any) -> None:
    """Let readers read while a writer writes."""
    _prepare_reader(connection, record)
    connection.execute(f"PRAGMA synchronous = {SYNCHRONOUS}")
    _write_ahead(connection)


def _write_ahead(connection: Any) -> None:
    """Switch a new file to write-ahead logging. SQLite does not wait for other processes here, so retry."""
    deadline = time.monotonic() + BUSY_TIMEOUT_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            busy = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY  # without the bits of its extended codes
            if not busy or time.monotonic() > deadline:
                raise
            time.sleep(PAUSE_SECONDS)
        else:
            return


def _begin_sqlite(connection: Connection) -> None:
    """Lock the file at the start of a writing transaction: after a read, SQLite could not wait for another writer."""
    writes = connection.get_execution_options().get("ml_metrics_writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


TYPES: dict[Kind, sa.types.TypeEngine[Any]] = {
    Kind.STRING: sa.Text(),
    Kind.INTEGER: sa.BigInteger(),
    Kind.FLOAT: sa.Double(),
    Kind.TIMESTAMP: sa.TIMESTAMP(timezone=True),
}

SCHEMA_LOCK = 7146_0001
"""The advisory lock for creating tables in PostgreSQL: `IF NOT EXISTS` fails when two processes try at once."""

ONE_OF_EACH = {
    "sqlite": "DELETE FROM {table} WHERE rowid NOT IN (SELECT MAX(rowid) FROM {table} GROUP BY {key});",
    "postgresql": "DELETE FROM {table} WHERE ctid NOT IN (SELECT MAX(ctid) FROM {table} GROUP BY {key});",
}
"""A statement that leaves one row of each key."""


def ensure_tables(connection: Connection) -> None:
    """Bring every table to its definition. A table that is something else is rejected before any change."""
    if connection.dialect.name == "postgresql":
        connection.execute(sa.text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": SCHEMA_LOCK})
    catalogue = read_catalogue(connection)
    changes = _changes(connection, catalogue)
    for change in changes:
        connection.execute(change)
    if changes and catalogue.marked < SCHEMA_VERSION:
        mark = f"COMMENT ON TABLE job_history IS 'ml-metrics schema {SCHEMA_VERSION}'"
        if connection.dialect.name == "sqlite":
            mark = f"PRAGMA user_version = {SCHEMA_VERSION}"
        connection.execute(sa.text(mark))  # by which an older version of this package knows of a newer one


def _changes(connection: Connection, catalogue: Catalogue) -> list[Executable]:
    dialect = connection.dialect
    for table in TABLES:
        if table.name in catalogue.columns:
            existing = catalogue.columns[table.name]
            check(table, table.name, existing, "database", lambda kind: TYPES[kind].compile(dialect))
    changes: list[Executable] = []
    for table in TABLES:
        if table.name not in catalogue.columns:
            changes += _creation(table.name, type(dialect))  # type: ignore[arg-type]  # it has a hash
            continue
        changes += _extensions(dialect, table, catalogue.columns[table.name])
        indexes = catalogue.indexes[table.name]
        if catalogue.keys[table.name] != set(table.key) and f"{table.name}_key" not in indexes:
            _check_unique(connection, table)
            changes.append(sa.text(f"CREATE UNIQUE INDEX {table.name}_key ON {table.name} ({', '.join(table.key)})"))
        if missing := set(table.index_names) - indexes:
            old = {name for index in table.page_indexes if index.name in missing for name in index.replaces} & indexes
            changes += [sa.text(f"DROP INDEX {name}") for name in sorted(old)]
            defined = _definitions()[table.name].indexes
            changes += [CreateIndex(index) for index in defined if index.name in missing]
    return changes


@cache
def _definitions() -> dict[str, sa.Table]:
    metadata = sa.MetaData()
    return {table.name: _defined(table, metadata) for table in TABLES}


@cache
def _creation(name: str, dialect: type[Dialect]) -> tuple[Executable, ...]:
    """The statements that make a table with its indexes. To compile them takes longer than to run them."""
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
    for one in table.page_indexes:
        where = None if one.where is None else sa.text(one.where)
        partial: dict[str, Any] = {"sqlite_where": where, "postgresql_where": where, "postgresql_include": one.include}
        indexes.append(sa.Index(one.name, *one.columns, **partial))
    # Without rowids, SQLite stores rows in the order of the key, so that the rows of a run are together.
    return sa.Table(table.name, metadata, *columns, *indexes, sqlite_with_rowid=False)


def _check_unique(connection: Connection, table: Table) -> None:
    """Raise an error that states what to do if rows have the same key: the older system wrote some runs twice."""
    key = ", ".join(table.key)
    doubled = connection.execute(
        sa.text(f"SELECT {key}, COUNT(*) FROM {table.name} GROUP BY {key} HAVING COUNT(*) > 1 ORDER BY {key}")
    ).fetchall()
    if doubled:
        example = " and ".join(f"{name} {value!r}" for name, value in zip(table.key, doubled[0], strict=False))
        statement = ONE_OF_EACH[connection.dialect.name].format(table=table.name, key=key)
        raise WarehouseError(
            f"table {table.name}: {len(doubled)} runs have several rows, such as {example} with {doubled[0][-1]}, "
            f"so that no run can be replaced. Nothing was written. Keep a copy of the table, then leave one row of "
            f"each: {statement}"
        )


def _extensions(dialect: Dialect, table: Table, existing: Mapping[str, ExistingColumn]) -> Iterator[Executable]:
    for column in table.columns:
        found = existing.get(column.name)
        if found is None:
            definition = CreateColumn(_definitions()[table.name].c[column.name]).compile(dialect=dialect)
            yield sa.text(f"ALTER TABLE {table.name} ADD COLUMN {definition}")
        elif not column.required and not found.is_nullable:
            if dialect.name == "sqlite":
                raise WarehouseError(
                    f"table {table.name}, column {column.name}: must allow null, and SQLite cannot change that in "
                    "place. Give another file; `ml-metrics import` copies the rows."
                )
            yield sa.text(f"ALTER TABLE {table.name} ALTER COLUMN {column.name} DROP NOT NULL")


TIMES = {column.name for table in TABLES for column in table.columns if column.kind is Kind.TIMESTAMP}
TIMES |= {"oldest", "last_good", "written_at", "moment", "first_run", "last_run", "opened_at", "closed_at"}
TIMES |= {"newest", "last_pass"}
TIME_LENGTH = len("2026-03-31 23:59:59.000000")
"""The length of a time as this package writes it into SQLite. Other programs may write another form."""


class SqlStore:
    """A database of SQLAlchemy, with the same methods as `BigQueryStore`. Times come back aware and in UTC."""

    bills_bytes = False
    """Whether a query costs what it reads, so that two small queries are better than a large one."""
    horizon = BEGINNING_OF_TIME
    """The time before which no history is read."""

    def __init__(self, address: str | URL, *, create: bool) -> None:
        self._create = create
        try:
            self._url = make_url(address)
            self._engine = engine_of(self._url, create=create)
        except (ArgumentError, ModuleNotFoundError) as error:
            raise WarehouseError(
                f"{_shown(address)}: cannot be opened: should be sqlite:///FILE, postgresql+psycopg://HOST/DATABASE or "
                "bigquery://PROJECT/DATASET"
            ) from error
        except (ImportError, SQLAlchemyError) as error:
            raise WarehouseError(f"{_shown(address)}: cannot be opened: {_first_line(error)}") from error
        self._is_sqlite = self._engine.dialect.name == "sqlite"

    @property
    def address(self) -> str:
        """Without its password, for messages."""
        return _shown(self._url)

    def close(self) -> None:
        self._engine.dispose()

    def ensure_schema(self) -> None:
        """Create missing tables and extend older ones, in one transaction. If none is, this is one statement."""
        with self._transaction(writes=False) as connection:
            catalogue = read_catalogue(connection)
            warn_if_newer(self.address, catalogue.marked)
            if catalogue.columns and not _changes(connection, catalogue):
                return  # a read-only user, or one behind a writer, can go on
            if not self._create and "job_history" not in catalogue.columns:
                raise WarehouseError(
                    f"{self.address}: has no table job_history. Check the address; the tables "
                    "are created when the first run is loaded."
                )
        with self._transaction() as connection:
            ensure_tables(connection)

    def plan(self) -> Plan:
        """The version of the tables, and what `ensure_schema` would change. Nothing is changed."""
        with self._transaction(writes=False) as connection:
            found, dialect = read_catalogue(connection), connection.dialect
            changes = [str(change.compile(dialect=dialect)) for change in _changes(connection, found)]  # type: ignore[attr-defined]
        return Plan(version_of(found.columns, found.marked), tuple(" ".join(change.split()) for change in changes))

    def replace(self, records: Sequence[RunRecord]) -> None:
        """Write all rows of some runs and delete the rows of their earlier attempts: all of it or nothing."""
        with self._transaction() as connection:
            for record in sorted(records, key=lambda record: record.key):  # a fixed order prevents deadlocks
                self._replace(connection, record)

    def _replace(self, connection: Connection, record: RunRecord) -> None:
        """Write one run. The upsert of the job comes first: it blocks other writers of the run until the commit."""
        rows = record.rows()
        job, *others = RUN_TABLES
        connection.execute(text(_upsert(job)), self._bound(rows[job.name][0]))
        for table in others:
            connection.execute(text(f"DELETE FROM {table.name} WHERE uuid = :run"), {"run": record.key})
            if rows[table.name]:
                connection.execute(text(_insert(table)), [self._bound(row) for row in rows[table.name]])

    def rows(self, query: str, parameters: Mapping[str, Any]) -> list[dict[str, Any]]:
        with self._transaction(writes=False) as connection:
            found = connection.execute(_with_lists(query, parameters), self._bound(parameters))
            names, values = tuple(found.keys()), found.all()
        return _as_dicts(names, values)

    def stream(self, query: str, parameters: Mapping[str, Any]) -> Generator[dict[str, Any]]:
        with self._transaction(writes=False) as connection:
            streamed = connection.execution_options(stream_results=True, yield_per=1000)
            found = streamed.execute(_with_lists(query, parameters), self._bound(parameters))
            for values in found.partitions():
                yield from _as_dicts(tuple(found.keys()), values)

    def scan(self, table: str, columns: Sequence[str]) -> Iterator[Sequence[Any]]:
        """Some columns of every row of a table, in any order, without holding them all."""
        with self._transaction(writes=False) as connection:
            query = text(f"SELECT {', '.join(columns)} FROM {table}")
            yield from connection.execution_options(stream_results=True, yield_per=1000).execute(query)

    def change(self, statement: str, parameters: Mapping[str, Any]) -> int:
        """Run a statement. Nothing is changed if another process wrote the same row first."""
        try:
            with self._transaction() as connection:
                return int(connection.execute(_with_lists(statement, parameters), self._bound(parameters)).rowcount)
        except WarehouseError as error:
            if isinstance(error.__cause__, IntegrityError):
                return 0
            raise

    def change_all(self, statements: Sequence[str], parameters: Mapping[str, Any]) -> None:
        with self._transaction() as connection:
            for statement in statements:
                used = set(PARAMETER.findall(statement))
                own = {name: value for name, value in parameters.items() if name in used}
                connection.execute(_with_lists(statement, own), self._bound(own))

    @contextmanager
    def _transaction(self, *, writes: bool = True) -> Iterator[Connection]:
        try:
            with self._engine.execution_options(ml_metrics_writes=writes).begin() as connection:
                yield connection
        except SQLAlchemyError as error:
            raise WarehouseError(f"{self.address}: {_first_line(error)}") from error

    def _bound(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """SQLite has no type for times; texts in UTC compare like times."""
        if not self._is_sqlite:
            return dict(parameters)
        return {
            name: as_utc(value).replace(tzinfo=None).isoformat(" ", "microseconds")
            if isinstance(value, datetime)
            else value
            for name, value in parameters.items()
        }


def _with_lists(query: str, parameters: Mapping[str, Any]) -> TextClause:
    lists: list[BindParameter[Any]] = [
        bindparam(name, expanding=True) for name, value in parameters.items() if isinstance(value, list)
    ]
    return text(query).bindparams(*lists)


def _upsert(table: Table) -> str:
    update = ", ".join(f"{name} = excluded.{name}" for name in table.names if name not in table.key)
    return f"{_insert(table)} ON CONFLICT ({', '.join(table.key)}) DO UPDATE SET {update}"


def _insert(table: Table) -> str:
    values = ", ".join(f":{name}" for name in table.names)
    return f"INSERT INTO {table.name} ({', '.join(table.names)}) VALUES ({values})"


def _as_dicts(names: tuple[str, ...], values: Sequence[Sequence[Any]]) -> list[dict[str, Any]]:
    rows = [dict(zip(names, row, strict=True)) for row in values]
    for name in TIMES.intersection(names):
        for row in rows:
            row[name] = _time(row[name])
    return rows


def _time(value: Any) -> datetime | None:
    if value is None:
        return None
    if not isinstance(value, str):
        return as_utc(value)
    if len(value) == TIME_LENGTH:  # parsing the zone as well is six times as fast, and a page reads thousands of times
        return as_utc(datetime.fromisoformat(f"{value}+00:00"))
    return as_utc(datetime.fromisoformat(value))


def _shown(address: str | URL) -> str:
    """An address without its password, and without its options, which may have others."""
    try:
        return make_url(address).set(query={}).render_as_string(hide_password=True)
    except ArgumentError:
        return "the warehouse's address"


def _first_line(error: BaseException) -> str:
    cause = error.orig if isinstance(error, DBAPIError) and error.orig else error
    return str(cause).strip().partition("\n")[0]
