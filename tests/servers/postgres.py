"""A real PostgreSQL server on a private loopback port, in a temporary folder, for one test session."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import psycopg

from missing import missing
from servers.ports import free_port

BINARIES = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
OWNER = "nobody"
"""The user of the server if the tests run as root, because PostgreSQL does not run as root."""


def start_postgres() -> PostgresServer:
    """Start a server. If PostgreSQL is not installed, the test is skipped, or fails where no test may be skipped."""
    try:
        return PostgresServer()
    except FileNotFoundError as error:
        missing(str(error))


class PostgresServer:
    """One cluster of databases. `kill` and `start` simulate a machine that crashes."""

    def __init__(self) -> None:
        found = BINARIES[-1] if BINARIES else None
        binary = shutil.which("postgres", path=str(found)) if found else shutil.which("postgres")
        if binary is None:
            raise FileNotFoundError("PostgreSQL is not installed: apt-get install postgresql")
        self.binaries = Path(binary).parent
        self.folder = Path(tempfile.mkdtemp(prefix="ml-metrics-postgres-"))
        self.user = OWNER if os.geteuid() == 0 else None
        if self.user:
            shutil.chown(self.folder, self.user)
        self.port = free_port()
        self._databases = 0
        # the locale of the user must not matter
        locale = ("--encoding=UTF8", "--locale=C")
        initdb = [self.binaries / "initdb", "--auth=trust", "--username=tests", "--no-sync", *locale]
        data = ("--pgdata", self.folder / "data")
        subprocess.run([*initdb, *data], check=True, capture_output=True, user=self.user, cwd=self.folder)
        self.start()

    def start(self) -> None:
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [
                    self.binaries / "postgres",
                    *("-D", self.folder / "data", "-p", str(self.port), "-k", self.folder),
                    *("-c", "listen_addresses=127.0.0.1", "-c", "max_connections=60"),
                    *("-c", "fsync=off"),  # the tests kill the server, never the machine
                    *("-c", "dynamic_shared_memory_type=mmap"),  # a server that is killed leaves nothing in /dev/shm
                ],
                stdout=log,
                stderr=log,
                user=self.user,
                cwd=self.folder,
            )
        self._wait()

    def kill(self) -> None:
        """Stop the server like `kill -9` of each of its processes: nothing is written."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        for pid in [self.process.pid, *map(int, children)]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()
        (self.folder / "data" / "postmaster.pid").unlink(missing_ok=True)

    def stop(self) -> None:
        self.process.send_signal(signal.SIGQUIT)
        self.process.wait(timeout=30)
        shutil.rmtree(self.folder)

    def new_database(self, *options: str) -> str:
        """Return the address of a new, empty database."""
        self._databases += 1
        name = f"warehouse_{self._databases}"
        if options:
            self.run("createdb", *options, name)
        else:
            self._execute(f"CREATE DATABASE {name} STRATEGY FILE_COPY")
        return f"postgresql+psycopg://tests@127.0.0.1:{self.port}/{name}"

    def drop(self, address: str) -> None:
        """Remove a database now: a session's hundreds of them, at its end, take a disk half a minute."""
        self._execute(f"DROP DATABASE {address.rpartition('/')[2]} WITH (FORCE)")

    def run(self, program: str, *arguments: str, **environment: str) -> None:
        """Run one of PostgreSQL's programs as the superuser."""
        where = ("--host=127.0.0.1", f"--port={self.port}", "--username=tests")
        variables = {**os.environ, **environment}
        subprocess.run([self.binaries / program, *where, *arguments], env=variables, check=True, capture_output=True)

    def _execute(self, statement: str) -> None:
        """The same as `run` with psql, for half of its time."""
        with psycopg.connect(host="127.0.0.1", port=self.port, user="tests", dbname="postgres", autocommit=True) as one:
            one.execute(statement)

    def _wait(self) -> None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            with suppress(subprocess.CalledProcessError):
                self.run("psql", "--dbname=postgres", "--command=SELECT 1")
                return
            time.sleep(0.1)
        raise TimeoutError((self.folder / "log").read_text())
