"""The processes of `make up`: `airflow standalone` without servers of logs, whose components are started again.

Airflow's scheduler and triggerer serve log files on every address of the machine, and no option of the configuration
changes the address. On one machine nobody needs the servers: the API server reads the same files. The API server is
started by `deploy/api_server.py`, and workloads wait in the triggerer.

A component ends for good only with the others. The DAG processor, for example, ends by itself when `airflow dags test`
stores a new test at the same moment.
"""

from __future__ import annotations

import _thread
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, ClassVar

from airflow.cli.commands import standalone_command

LOG_SERVERS = ("scheduler", "triggerer")
API_SERVER = "api-server"
PAUSE_SECONDS = 1.0
MOST_ENDS, WITHIN_SECONDS = 5, 600
"""A component that ends so often within this time is broken. `kill -9` does not count: it comes from outside."""
PR_SET_PDEATHSIG = 1
PRCTL = ctypes.CDLL(None).prctl if sys.platform == "linux" else None


class Component(standalone_command.SubCommand):
    """One of the processes of Airflow, without a log server, started again when it ends."""

    broken: ClassVar[str] = ""
    """What ends the whole Airflow; empty if the user does."""

    def __init__(self, parent: Any, name: str, command: list[str], env: dict[str, str]) -> None:
        super().__init__(parent, name, [*command, "--skip-serve-logs"] if name in LOG_SERVERS else command, env)
        self._stopped = threading.Event()

    def run(self) -> None:
        """Run the process until Airflow is stopped, and pass its output on, as Airflow does."""
        ends: list[float] = []
        while not self._stopped.is_set():
            code = self._run_once()
            if self._stopped.wait(PAUSE_SECONDS):  # a signal for all may reach the component first
                return
            now = time.monotonic()
            ends = [*(end for end in ends if end > now - WITHIN_SECONDS), *([now] if code != -signal.SIGKILL else [])]
            if len(ends) == MOST_ENDS:
                minutes = WITHIN_SECONDS // 60
                Component.broken = f"{self.name} ended {MOST_ENDS} times within {minutes} minutes, at last with {code}"
                _thread.interrupt_main()
                return
            self.parent.output_queue.append((self.name, f"ended with {code}: it is started again".encode()))

    def stop(self) -> None:
        """End the process for good."""
        self._stopped.set()
        super().stop()

    def _run_once(self) -> int:
        own = [sys.executable, str(Path(__file__).with_name("api_server.py"))]
        program = own if self.name == API_SERVER else ["airflow"]
        self.process = subprocess.Popen(
            [*program, *self.command],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=self.env,
            preexec_fn=_end_with_parent,  # noqa: PLW1509  (one call of the kernel, which takes no lock)
        )
        if self._stopped.is_set():
            self.process.terminate()
        output = threading.Thread(target=self._pass_on, args=(self.process.stdout,), daemon=True)
        output.start()
        code = self.process.wait()
        output.join(PAUSE_SECONDS)  # what it started may live on, and hold the output open
        return code

    def _pass_on(self, output: IO[bytes]) -> None:
        with output:
            for line in output:
                self.parent.output_queue.append((self.name, line))


def _end_with_parent() -> None:
    """Let the kernel end this process when its parent is killed (Linux only)."""
    if PRCTL is not None:
        PRCTL(PR_SET_PDEATHSIG, signal.SIGTERM)


def main() -> None:
    """Run Airflow until it is stopped or one of its components is broken."""
    from airflow.__main__ import main as airflow

    # `airflow dags test` has the same configuration and no triggerer, so this is no line of airflow.cfg
    os.environ.setdefault("AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE", "True")
    standalone_command.SubCommand = Component  # type: ignore[misc]
    for number in (signal.SIGTERM, signal.SIGHUP):  # else the components would go on alone
        signal.signal(number, signal.default_int_handler)
    sys.argv = ["airflow", "standalone"]
    with suppress(KeyboardInterrupt):
        airflow()
    if Component.broken:
        sys.exit(f"Airflow has ended, because {Component.broken}; its last lines are above")
