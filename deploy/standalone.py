"""`airflow standalone` without its two log servers, and with workloads that wait in its triggerer: `make up` runs this.

Airflow's scheduler and triggerer serve log files on every address of the machine, and no option of the configuration
changes the address. On one machine nobody needs the servers: the API server reads the same files.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from airflow.cli.commands import standalone_command

LOG_SERVERS = ("scheduler", "triggerer")


class Component(standalone_command.SubCommand):
    """One of the processes of Airflow, started without a log server."""

    def __init__(self, parent: Any, name: str, command: list[str], env: dict[str, str]) -> None:
        super().__init__(parent, name, [*command, "--skip-serve-logs"] if name in LOG_SERVERS else command, env)


if __name__ == "__main__":
    from airflow.__main__ import main

    # `airflow dags test` has the same configuration and no triggerer, so this is no line of airflow.cfg
    os.environ.setdefault("AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE", "True")
    standalone_command.SubCommand = Component  # type: ignore[misc]
    sys.argv = ["airflow", "standalone"]
    main()
