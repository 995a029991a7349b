"""One Airflow of a home at a time, at an address of its own. Nothing of Airflow is imported, which takes seconds."""

from __future__ import annotations

import fcntl
import re
import shutil
import socket
import sys
from typing import IO, TYPE_CHECKING

from ml_metrics.core.airflow_options import airflow_option

if TYPE_CHECKING:
    from pathlib import Path

PORTS = 100
"""How many ports are tried, beginning with the one of the configuration."""


def hold(home: Path) -> IO[str]:
    """Return the lock of a home, which its process holds as long as it lives. Exits if another one holds it."""
    lock = (home / "standalone.lock").open("a+", encoding="utf-8")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.seek(0)
        with lock:
            sys.exit(f"An Airflow of {home} is running already: {lock.read().strip() or 'it has just been started'}")
    lock.truncate(0)
    return lock


def choose_port(configuration: Path) -> str:
    """Return Airflow's address. If another program has the port, the configuration gets the next one that is free.

    The address is in the configuration, so that commands and links of the same home have it too.
    """
    wanted = int(airflow_option("api", "port") or 8080)
    address = airflow_option("api", "base_url") or f"http://localhost:{wanted}"
    if _is_free(wanted):
        return address
    text = configuration.read_text() if configuration.exists() else ""
    free = next(filter(_is_free, range(wanted + 1, wanted + PORTS)), None)
    moved, ports = re.subn(rf"^port = {wanted}$", f"port = {free}", text, count=1, flags=re.MULTILINE)
    own = rf"^base_url = http://localhost:{wanted}$"
    moved, addresses = re.subn(own, f"base_url = http://localhost:{free}", moved, count=1, flags=re.MULTILINE)
    if free is None or (ports, addresses) != (1, 1) or address != f"http://localhost:{wanted}":
        sys.exit(
            f"Another program listens on port {wanted}, which is [api] port: end it, or set another port there and in "
            f"[api] base_url ({configuration}, or variables AIRFLOW__API__...)"
        )
    new = configuration.with_suffix(".new")
    shutil.copyfile(configuration, new)
    new.write_text(moved)
    shutil.copystat(configuration, new)  # its time, too: the database is not older than the configuration
    new.replace(configuration)
    print(f"Another program listens on port {wanted}: {configuration} has port {free} now")
    return f"http://localhost:{free}"


def _is_free(port: int) -> bool:
    """Say whether nobody answers on a port of loopback. A browser may ask for localhost at either address."""
    for host in ("127.0.0.1", "::1"):
        try:
            socket.create_connection((host, port), timeout=1).close()
        except TimeoutError:
            return False
        except OSError:
            continue
        return False
    return True
