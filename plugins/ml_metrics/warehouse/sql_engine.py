"""Connections to SQLite and PostgreSQL, as the warehouse needs them."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import create_engine, event

from ml_metrics.errors import WarehouseError

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine
    from sqlalchemy.engine import URL

BUSY_SECONDS = 60
"""How long a writer of an SQLite file waits for the others. One load holds the file for milliseconds."""
PAUSE = 0.02
KIND = 0xFF
"""The bits of SQLite's error codes that all codes of one kind have in common."""


def engine_of(url: URL, *, create: bool) -> Engine:
    """Return an engine for an address. An SQLite file's missing folder is created, or the missing file is an error."""
    if url.get_backend_name() != "sqlite":
        # a database made without a locale names no encoding, and psycopg would read bytes from it
        return create_engine(url, pool_pre_ping=True, connect_args={"client_encoding": "utf8"})
    if url.database and url.database != ":memory:":
        file = Path(url.database).expanduser()
        _prepare_place(file, create=create)
        url = url.set(database=str(file))
    engine = create_engine(url, connect_args={"timeout": BUSY_SECONDS})
    event.listen(engine, "connect", _prepare_sqlite if create else _take_transactions)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_place(file: Path, *, create: bool) -> None:
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


def _take_transactions(connection: Any, _: Any) -> None:
    """Begin transactions ourselves. How an existing file is written stays as it is: it may be another system's."""
    connection.isolation_level = None


def _prepare_sqlite(connection: Any, record: Any) -> None:
    """Begin transactions ourselves, and let readers read while a writer writes."""
    _take_transactions(connection, record)
    _write_ahead(connection)
    connection.execute("PRAGMA synchronous = FULL")


def _write_ahead(connection: Any) -> None:
    """Switch a new file to write-ahead logging. SQLite waits for others with everything else, but not with this."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            busy = error.sqlite_errorcode & KIND == sqlite3.SQLITE_BUSY
            if not busy or time.monotonic() > deadline:
                raise
            time.sleep(PAUSE)
        else:
            return


def _begin_sqlite(connection: Connection) -> None:
    """A writer takes the file at once: one that first reads and then writes could not wait for another."""
    writes = connection.get_execution_options().get("ml_metrics_writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
