"""`airflow standalone` for a laptop: `make up` runs this.

One Airflow of a home runs at a time, because two schedulers would share one SQLite file. On a terminal, its output goes
into a file, and five lines say what a user needs once the dashboard answers.
"""

from __future__ import annotations

import http.client
import json
import os
import sys
import threading
import time
from typing import TYPE_CHECKING, TextIO
from urllib.parse import urlsplit

from ml_metrics.core.airflow_options import airflow_cfg_path, airflow_home

if TYPE_CHECKING:
    from pathlib import Path


LAST_LINES = 20


def answers(address: str) -> bool:
    """Say whether Airflow's API server answers."""
    place = urlsplit(address)
    kind = http.client.HTTPSConnection if place.scheme == "https" else http.client.HTTPConnection
    connection = kind(place.netloc, timeout=5)
    try:
        connection.request("GET", f"{place.path}/api/v2/version")
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def five_lines(address: str, passwords: Path, log: Path) -> str:
    """Return what a user needs. Airflow has made the password by then, unless the configuration has other users."""
    known = json.loads(passwords.read_text(encoding="utf-8")) if passwords.exists() else {}
    user, password = next(iter(known.items()), ("", ""))
    return "\n".join(
        [
            f"dashboard  {address}/ml-metrics/inbox",
            f"user       {user or 'one of your own'}",
            f"password   {password or 'its own'}",
            f"log        {log}",
            "stop       Ctrl-C",
        ]
    )


def log_into(log: Path) -> TextIO:
    """Let this process and all that it starts write into a file. Returns the terminal."""
    terminal = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8", errors="replace")
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as file:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
            os.dup2(file.fileno(), stream.fileno())
    return terminal


def tell_when_ready(terminal: TextIO, address: str, passwords: Path, log: Path) -> None:
    """Print the five lines once the dashboard answers."""
    print("Airflow starts, which takes about a minute ...", end="", file=terminal, flush=True)
    while not answers(address):
        time.sleep(1)
    print(f"\r\x1b[K{five_lines(address, passwords, log)}", file=terminal, flush=True)


def main() -> None:
    """Run Airflow until it is stopped or one of its components is broken."""
    from one_airflow import choose_port, hold  # beside this program

    home = airflow_home()
    with hold(home) as lock:
        address = choose_port(airflow_cfg_path())
        print(f"process {os.getpid()}, {address}", file=lock, flush=True)
        passwords = home / "simple_auth_manager_passwords.json.generated"
        terminal, log = None, home / "logs" / "make-up.log"
        if sys.stdout.isatty():
            terminal = log_into(log)
            threading.Thread(target=tell_when_ready, args=(terminal, address, passwords, log), daemon=True).start()
        else:
            print(f"Airflow starts on {address}; the password of user admin is in {passwords}", flush=True)
        from components import main as run

        try:
            run()
        except SystemExit as ended:
            if terminal is not None and ended.code:
                last = log.read_text(encoding="utf-8", errors="replace").splitlines()[-LAST_LINES:]
                print("\n".join(["", *last, str(ended.code)]), file=terminal, flush=True)
            raise


if __name__ == "__main__":
    main()
