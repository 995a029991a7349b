"""SQLAlchemy engines for SQLite and PostgreSQL."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import create_engine, event

from ml_metrics.errors import WarehouseError
from ml_metrics.extras import require

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine
    from sqlalchemy.engine import URL

BUSY_TIMEOUT_SECONDS = 60
"""How long a writer of an SQLite file waits for other writers. A load locks the file for milliseconds."""
PAUSE_SECONDS = 0.02
CACHE_KIB = 16_000
"""How much of the file a connection keeps in memory: the indexes that pages read, instead of the 2 MB of SQLite."""
PRIMARY_CODE = 0xFF
"""The bits of an extended error code of SQLite that hold its primary code."""


def engine_of(url: URL, *, create: bool) -> Engine:
    """Return an engine for an address. An SQLite file's missing folder is created, or the missing file is an error."""
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
    event.listen(engine, "connect", _prepare_sqlite if create else _prepare_reader)
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


def _prepare_reader(connection: Any, _: Any) -> None:
    """Begin transactions ourselves. The journal mode of an existing file is kept: it may belong to another system."""
    connection.isolation_level = None
    connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")


def _prepare_sqlite(connection: Any, record: Any) -> None:
    """Prepare it as a reader's, and let readers read while a writer writes."""
    _prepare_reader(connection, record)
    _write_ahead(connection)
    connection.execute("PRAGMA synchronous = FULL")


def _write_ahead(connection: Any) -> None:
    """Switch a new file to write-ahead logging. SQLite does not wait for other processes here, so retry."""
    deadline = time.monotonic() + BUSY_TIMEOUT_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            busy = error.sqlite_errorcode & PRIMARY_CODE == sqlite3.SQLITE_BUSY
            if not busy or time.monotonic() > deadline:
                raise
            time.sleep(PAUSE_SECONDS)
        else:
            return


def _begin_sqlite(connection: Connection) -> None:
    """Lock the file at the start of a writing transaction: after a read, SQLite could not wait for another writer."""
    writes = connection.get_execution_options().get("ml_metrics_writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
