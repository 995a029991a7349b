"""The warehouse of a deployment on each engine, and how it hangs for a while."""

from __future__ import annotations

import os
import signal
import sqlite3
import threading
import time
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from ml_metrics.warehouse import Warehouse, open_warehouse
from servers.bigquery import IN_THE_US, LOCATION, PROJECT, BigQueryServer, client_of
from servers.faulty_proxy import Fault, FaultyProxy
from servers.postgres import PostgresServer


class WarehouseServer(Protocol):
    """A warehouse that can fail."""

    def environment(self) -> dict[str, str]:
        """Return the environment of processes that use it."""

    def open(self, deployment: str) -> Warehouse:
        """Open it, past any fault."""

    def fail(self) -> None:
        """Begin the fault."""

    def recover(self) -> None:
        """End the fault."""

    def stop(self) -> None:
        """Stop what was started for it."""


@dataclass
class SqliteFile:
    """A file that another process locks."""

    path: Path
    _release: threading.Event = field(default_factory=threading.Event)
    _holder: threading.Thread | None = None

    def environment(self) -> dict[str, str]:
        return {"AIRFLOW__ML_METRICS__WAREHOUSE_FILE": str(self.path)}

    def open(self, deployment: str) -> Warehouse:
        return open_warehouse(f"sqlite:///{self.path}", deployment=deployment)

    def fail(self) -> None:
        locked = threading.Event()
        self._release.clear()
        self._holder = threading.Thread(target=self._hold, args=[locked], daemon=True)
        self._holder.start()
        locked.wait(10)

    def recover(self) -> None:
        self._release.set()
        if self._holder:
            self._holder.join()

    def stop(self) -> None:
        self.recover()

    def _hold(self, locked: threading.Event) -> None:
        """Lock the file against writers and readers."""
        with closing(sqlite3.connect(self.path, timeout=1, isolation_level=None)) as connection:
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")
            while not self._release.is_set():
                with suppress(sqlite3.OperationalError):
                    connection.execute("BEGIN EXCLUSIVE")
                    break
                time.sleep(0.05)
            locked.set()
            self._release.wait()
            if connection.in_transaction:
                connection.execute("ROLLBACK")


@dataclass
class Postgres:
    """A server of its own whose processes are stopped: connections are accepted, and nobody answers."""

    server: PostgresServer
    address: str

    def environment(self) -> dict[str, str]:
        return {"AIRFLOW_CONN_ML_METRICS_WAREHOUSE": self.address.replace("postgresql+psycopg", "postgres")}

    def open(self, deployment: str) -> Warehouse:
        return open_warehouse(self.address, deployment=deployment)

    def fail(self) -> None:
        self._signal(signal.SIGSTOP)

    def recover(self) -> None:
        self._signal(signal.SIGCONT)

    def stop(self) -> None:
        self.recover()
        self.server.stop()

    def _signal(self, number: signal.Signals) -> None:
        pid = self.server.process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        for each in [pid, *map(int, children)]:
            with suppress(ProcessLookupError):
                os.kill(each, number)


class HangingProxy(FaultyProxy):
    """A proxy that breaks every request as long as a fault lasts; None for silence."""

    def __init__(self, upstream: int) -> None:
        super().__init__(upstream, {})
        self.works = threading.Event()
        self.works.set()
        self.fault: Fault | None = None

    def next_fault(self) -> Fault | None:
        if self.works.is_set():
            return None
        if self.fault is None:
            self.works.wait()
            return Fault.REFUSE  # the client has given up long ago
        return self.fault


@dataclass
class BigQuery:
    """The emulator behind a proxy."""

    server: BigQueryServer
    address: str
    proxy: HangingProxy
    fault: Fault | None
    """None for silence."""

    def environment(self) -> dict[str, str]:
        return {
            "AIRFLOW_CONN_ML_METRICS_WAREHOUSE": CONNECTION,
            "BIGQUERY_EMULATOR_HOST": f"http://127.0.0.1:{self.proxy.port}",
            "AIRFLOW__ML_METRICS__DATASET": self.address.rpartition("/")[2],
            "AIRFLOW__ML_METRICS__BIGQUERY_LOCATION": LOCATION,
        }

    def open(self, deployment: str) -> Warehouse:
        client: Any = client_of(self.server.port)
        return open_warehouse(self.address, client=client, deployment=deployment, options=IN_THE_US)

    def fail(self) -> None:
        self.proxy.fault = self.fault
        self.proxy.works.clear()

    def recover(self) -> None:
        self.proxy.works.set()

    def stop(self) -> None:
        self.recover()
        self.proxy.close()


CONNECTION = f'{{"conn_type": "google_cloud_platform", "extra": {{"is_anonymous": true, "project": "{PROJECT}"}}}}'
