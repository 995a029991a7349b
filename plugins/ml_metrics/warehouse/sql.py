"""SQLite and PostgreSQL, through SQLAlchemy."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import BindParameter, TextClause, bindparam, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, SQLAlchemyError

from ml_metrics.errors import WarehouseError
from ml_metrics.values import BEGINNING_OF_TIME, as_utc
from ml_metrics.warehouse.sql_catalogue import read_catalogue
from ml_metrics.warehouse.sql_engine import engine_of
from ml_metrics.warehouse.sql_schema import ensure_tables, is_up_to_date, is_warehouse, marked_version, plan_of
from ml_metrics.warehouse.tables import RUN_TABLES, TABLES, Kind
from ml_metrics.warehouse.versions import warn_if_newer

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping, Sequence

    from sqlalchemy import Connection
    from sqlalchemy.engine import URL

    from ml_metrics.warehouse.record import RunRecord
    from ml_metrics.warehouse.tables import Table
    from ml_metrics.warehouse.versions import Plan

TIMES = {column.name for table in TABLES for column in table.columns if column.kind is Kind.TIMESTAMP}
TIMES |= {"oldest", "last_good", "written_at", "moment", "first_run", "last_run"}
FORMS = "should be sqlite:///FILE, postgresql+psycopg://HOST/DATABASE or bigquery://PROJECT/DATASET"
TIME_LENGTH = len("2026-03-31 23:59:59.000000")
"""The length of a time as this package writes it into SQLite. Other programs may write another form."""


class SqlStore:
    """A database of SQLAlchemy."""

    bills_bytes = False
    horizon = BEGINNING_OF_TIME

    def __init__(self, address: str | URL, *, create: bool) -> None:
        self._create = create
        try:
            self._url = make_url(address)
            self._engine = engine_of(self._url, create=create)
        except (ArgumentError, ModuleNotFoundError) as error:
            raise WarehouseError(f"{_shown(address)}: cannot be opened: {FORMS}") from error
        except (ImportError, SQLAlchemyError) as error:
            raise WarehouseError(f"{_shown(address)}: cannot be opened: {_first_line(error)}") from error
        self._is_sqlite = self._engine.dialect.name == "sqlite"

    @property
    def address(self) -> str:
        """The address without its password, for messages."""
        return _shown(self._url)

    def close(self) -> None:
        """Release connections."""
        self._engine.dispose()

    def ensure_schema(self) -> None:
        """Create missing tables and extend older ones, in one transaction. If none is, this is one statement."""
        with self._transaction(writes=False) as connection:
            catalogue = read_catalogue(connection)
            warn_if_newer(self.address, marked_version(catalogue))
            if is_up_to_date(connection, catalogue):
                return
            if not self._create and not is_warehouse(connection):
                raise WarehouseError(
                    f"{self.address}: has no table job_history. Check the address; the tables "
                    "are created when the first run is loaded."
                )
        with self._transaction() as connection:
            ensure_tables(connection)

    def plan(self) -> Plan:
        """Return the version of the tables, and what `ensure_schema` would change."""
        with self._transaction(writes=False) as connection:
            return plan_of(connection)

    def replace(self, records: Sequence[RunRecord]) -> None:
        """Write all rows of some runs and delete the rows of their earlier attempts, in one transaction."""
        with self._transaction() as connection:
            for record in sorted(records, key=lambda record: record.key):  # a fixed order prevents deadlocks
                self._replace(connection, record)

    def _replace(self, connection: Connection, record: RunRecord) -> None:
        """Write one run. The upsert of the job comes first: it blocks other writers of the run until the commit."""
        rows = record.rows()
        job, *others = RUN_TABLES
        connection.execute(text(_upsert(job)), self._bound(rows[job.name][0]))
        for table in others:
            connection.execute(text(f"DELETE FROM {table.name} WHERE uuid = :run"), {"run": record.key})  # noqa: S608
            if rows[table.name]:
                connection.execute(text(_insert(table)), [self._bound(row) for row in rows[table.name]])

    def rows(self, query: str, parameters: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Run a query. Times come back aware and in UTC."""
        with self._transaction(writes=False) as connection:
            found = connection.execute(_with_lists(query, parameters), self._bound(parameters))
            names, values = tuple(found.keys()), found.all()
        return _as_dicts(names, values)

    def stream(self, query: str, parameters: Mapping[str, Any]) -> Generator[dict[str, Any]]:
        """Run a query and yield its rows without holding them all."""
        with self._transaction(writes=False) as connection:
            streamed = connection.execution_options(stream_results=True, yield_per=1000)
            found = streamed.execute(_with_lists(query, parameters), self._bound(parameters))
            for values in found.partitions():
                yield from _as_dicts(tuple(found.keys()), values)

    def scan(self, table: str, columns: Sequence[str]) -> Iterator[Sequence[Any]]:
        """Yield some columns of every row of a table, in any order, without holding them all."""
        with self._transaction(writes=False) as connection:
            query = text(f"SELECT {', '.join(columns)} FROM {table}")  # noqa: S608  (names of our own)
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
        """Run some statements in one transaction: all of them or none."""
        with self._transaction() as connection:
            for statement in statements:
                own = {name: value for name, value in parameters.items() if f":{name}" in statement}
                connection.execute(_with_lists(statement, own), self._bound(own))

    @contextmanager
    def _transaction(self, *, writes: bool = True) -> Iterator[Connection]:
        try:
            with self._engine.execution_options(ml_metrics_writes=writes).begin() as connection:
                yield connection
        except SQLAlchemyError as error:
            raise WarehouseError(f"{self.address}: {_first_line(error)}") from error

    def _bound(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return values for the driver. SQLite has no type for times; texts in UTC compare like times."""
        if not self._is_sqlite:
            return dict(parameters)
        return {
            name: _sqlite_time(value) if isinstance(value, datetime) else value for name, value in parameters.items()
        }


def _with_lists(query: str, parameters: Mapping[str, Any]) -> TextClause:
    """Return the query with one parameter for each value of a list."""
    lists: list[BindParameter[Any]] = [
        bindparam(name, expanding=True) for name, value in parameters.items() if isinstance(value, list)
    ]
    return text(query).bindparams(*lists)


def _upsert(table: Table) -> str:
    update = ", ".join(f"{name} = excluded.{name}" for name in table.names if name not in table.key)
    return f"{_insert(table)} ON CONFLICT ({', '.join(table.key)}) DO UPDATE SET {update}"


def _insert(table: Table) -> str:
    values = ", ".join(f":{name}" for name in table.names)
    return f"INSERT INTO {table.name} ({', '.join(table.names)}) VALUES ({values})"  # noqa: S608  (names of our own)


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


def _sqlite_time(moment: datetime) -> str:
    return as_utc(moment).replace(tzinfo=None).isoformat(sep=" ", timespec="microseconds")


def _shown(address: str | URL) -> str:
    """Return an address without its password, and without its options, which may have others."""
    try:
        return make_url(address).set(query={}).render_as_string(hide_password=True)
    except ArgumentError:
        return "the warehouse's address"


def _first_line(error: BaseException) -> str:
    cause = error.orig if isinstance(error, DBAPIError) and error.orig else error
    return str(cause).strip().partition("\n")[0]
