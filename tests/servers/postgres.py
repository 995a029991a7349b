"""A real PostgreSQL on a private port of loopback, in a temporary folder, for as long as a test session."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from missing import missing
from servers.ports import free_port

BINARIES = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
OWNER = "nobody"
"""PostgreSQL refuses to run as root; where the tests are root, it runs as this user."""


def start_postgres() -> PostgresServer:
    """A server. Where PostgreSQL is not installed, the test that asked is skipped, or fails where nothing may be."""
    try:
        return PostgresServer()
    except FileNotFoundError as error:
        missing(str(error))


class PostgresServer:
    """One cluster of databases. `kill` and `start` again play a machine that dies."""

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
        # not what the locale of the person who runs the tests would choose
        letters = ("--encoding=UTF8", "--locale=C")
        initdb = [self.binaries / "initdb", "--auth=trust", "--username=tests", "--no-sync", *letters]
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
                    *("-c", "fsync=off"),  # what the tests kill is the server, never the machine
                ],
                stdout=log,
                stderr=log,
                user=self.user,
                cwd=self.folder,
            )
        self._wait()

    def kill(self) -> None:
        """As `kill -9` of every server process would do it: nothing is written on the way out."""
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
        """The address of an empty database."""
        self._databases += 1
        name = f"warehouse_{self._databases}"
        self.run("createdb", *options, name)
        return f"postgresql+psycopg://tests@127.0.0.1:{self.port}/{name}"

    def run(self, program: str, *words: str) -> None:
        """One of PostgreSQL's own programs, as the superuser."""
        where = ("--host=127.0.0.1", f"--port={self.port}", "--username=tests")
        subprocess.run([self.binaries / program, *where, *words], check=True, capture_output=True)

    def _wait(self) -> None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            with suppress(subprocess.CalledProcessError):
                self.run("psql", "--dbname=postgres", "--command=SELECT 1")
                return
            time.sleep(0.1)
        raise TimeoutError((self.folder / "log").read_text())
