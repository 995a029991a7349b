"""`airflow standalone` without its two log servers, and with workloads that wait in its triggerer: `make up` runs this.

Airflow's scheduler and triggerer serve log files on every address of the machine, and no option of the configuration
changes the address. On one machine nobody needs the servers: the API server reads the same files.

The API server logs each request that changes something on its event loop, and waits there for SQLite's lock. If another
request of its own holds the lock and needs the loop to end, both wait until the time for the lock is over, and the
server answers no request meanwhile. So the API server waits for a shorter time than the other processes.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from airflow.cli.commands import standalone_command
from airflow.configuration import conf

LOG_SERVERS = ("scheduler", "triggerer")
API_SERVER = "api-server"
LOCK_SECONDS = 5
"""How long the API server waits for SQLite's lock."""


class Component(standalone_command.SubCommand):
    """One of the processes of Airflow, started without a log server."""

    def __init__(self, parent: Any, name: str, command: list[str], env: dict[str, str]) -> None:
        if name in LOG_SERVERS:
            command = [*command, "--skip-serve-logs"]
        super().__init__(parent, name, command, {**env, **database_of_api_server()} if name == API_SERVER else env)


def database_of_api_server() -> dict[str, str]:
    """Return the address of an SQLite database with the shorter wait; nothing for another database."""
    address = conf.get_mandatory_value("database", "sql_alchemy_conn")
    if not address.startswith("sqlite:"):
        return {}
    return {"AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"{address.partition('?')[0]}?timeout={LOCK_SECONDS}"}


if __name__ == "__main__":
    from airflow.__main__ import main

    # `airflow dags test` has the same configuration and no triggerer, so this is no line of airflow.cfg
    os.environ.setdefault("AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE", "True")
    standalone_command.SubCommand = Component  # type: ignore[misc]
    sys.argv = ["airflow", "standalone"]
    main()
