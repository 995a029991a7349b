"""`airflow standalone` for a laptop: `make up` runs this.

Airflow's scheduler and triggerer serve log files on every address of the machine, and no option of the configuration
changes the address. On one machine nobody needs the servers: the API server reads the same files. The API server is
started by `deploy/api_server.py`, and workloads wait in the triggerer.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from airflow.cli.commands import standalone_command

LOG_SERVERS = ("scheduler", "triggerer")
API_SERVER = "api-server"


class Component(standalone_command.SubCommand):
    """One of the processes of Airflow, without a log server."""

    def __init__(self, parent: Any, name: str, command: list[str], env: dict[str, str]) -> None:
        super().__init__(parent, name, [*command, "--skip-serve-logs"] if name in LOG_SERVERS else command, env)

    def run(self) -> None:
        """Run the process, and pass its output on, as Airflow does."""
        own = [sys.executable, str(Path(__file__).with_name("api_server.py"))]
        program = own if self.name == API_SERVER else ["airflow"]
        self.process = subprocess.Popen(
            [*program, *self.command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=self.env
        )
        for line in self.process.stdout or ():
            self.parent.output_queue.append((self.name, line))


if __name__ == "__main__":
    from airflow.__main__ import main

    # `airflow dags test` has the same configuration and no triggerer, so this is no line of airflow.cfg
    os.environ.setdefault("AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE", "True")
    standalone_command.SubCommand = Component  # type: ignore[misc]
    sys.argv = ["airflow", "standalone"]
    main()
