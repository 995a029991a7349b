"""Airflow's commands in forks of processes that have made their imports, which take longer than most commands.

Airflow reads its configuration while it is imported, so each environment has a process of its own. These processes are
forks, too, of one that has imported nothing but libraries.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import threading
import traceback
from datetime import UTC, datetime
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from multiprocessing.connection import Connection

TESTS = Path(__file__).parent
TIMEOUT_SECONDS = 300
LIBRARIES = (
    "alembic.command",
    "cadwyn",
    "fastapi.testclient",
    "jinja2.sandbox",
    "kubernetes.client",
    "kubernetes_asyncio.client",
    "numpy",
    "opentelemetry.sdk.metrics",
    "opentelemetry.sdk.trace",
    "pandas",
    "pyarrow.json",
    "rich.console",
    "sqlalchemy.orm",
    "uvicorn",
)
"""What Airflow's commands import of libraries that read no configuration of Airflow."""
IMPORTED_ONCE = (
    "airflow.api_fastapi.execution_api.app",
    "airflow.cli.commands.dag_command",
    "airflow.cli.commands.dag_processor_command",
    "airflow.sdk.execution_time.supervisor",
    "ml_metrics.airflow.dags",
    "ml_metrics.airflow.operators.run_workload",
)
"""What every run imports."""
forks = get_context("forkserver")
forks.set_forkserver_preload(list(LIBRARIES))


class WarmAirflow:
    """Runs commands of Airflow, one at a time, in an environment that stays the same."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._connection, theirs = forks.Pipe()
        self._process = forks.Process(target=serve, args=(theirs, dict(environment)))
        self._process.start()
        theirs.close()
        self._one_at_a_time = threading.Lock()
        atexit.register(self.stop)  # a process that waits for commands would be waited for

    def run(self, command: Sequence[str], environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        """Run one of PROGRAMS with its arguments, as subprocess.run would."""
        with self._one_at_a_time, TemporaryDirectory(prefix="ml-metrics-airflow-") as folder:
            output, errors = Path(folder, "output"), Path(folder, "errors")
            self._connection.send((list(command), dict(environment), str(output), str(errors)))
            pid = self._connection.recv()
            if not self._connection.poll(TIMEOUT_SECONDS):
                os.kill(pid, 9)
                self._connection.recv()
                raise subprocess.TimeoutExpired(command, TIMEOUT_SECONDS, output.read_bytes(), errors.read_bytes())
            code = self._connection.recv()
            return subprocess.CompletedProcess(list(command), code, output.read_text(), errors.read_text())

    def stop(self) -> None:
        self._connection.close()
        self._process.join()
        atexit.unregister(self.stop)


def serve(connection: Connection, environment: Mapping[str, str]) -> None:
    """Run each command that arrives in a fork, and answer with its process and then with its exit code."""
    become(environment)
    sys.path[:] = [entry for entry in sys.path if Path(entry) not in {TESTS, TESTS.parent}]  # Airflow sees no test
    for module in IMPORTED_ONCE:
        import_module(module)
    build_execution_api()
    while True:
        try:
            command, environment, output, errors = connection.recv()
        except EOFError:
            return
        if not (child := os.fork()):
            become(environment)
            os._exit(run(command, output, errors))
        connection.send(child)
        _, status = os.waitpid(child, 0)
        connection.send(os.waitstatus_to_exitcode(status))


def become(environment: Mapping[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environment)


def build_execution_api() -> None:
    """Build the API that tasks of `airflow dags test` use, in all its versions, which takes longer than the tasks."""
    supervisor = import_module("airflow.sdk.execution_time.supervisor")
    supervisor.in_process_api_server().app._cadwyn_initialize()


def run(command: Sequence[str], output: str, errors: str) -> int:
    """Run a command in a fork, with its output in files, and return its exit code."""
    for target, file, flags in ((0, os.devnull, os.O_RDONLY), (1, output, NEW), (2, errors, NEW)):
        os.dup2(os.open(file, flags, 0o600), target)
    sys.argv = list(command)
    try:
        return PROGRAMS[command[0]]()
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(bool(ended.code))
    except BaseException:
        traceback.print_exc()
        return 1
    finally:  # as a process does that ends by itself
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()


def airflow() -> int:
    import_module("airflow.__main__").main()
    return 0


def ml_metrics() -> int:
    code: int = import_module("ml_metrics.ui.cli").main()
    return code


def run_of_one_date() -> int:
    """Run a test as `airflow dags test` does, which names each run by the time of day: a second time, it is cleared."""
    date, (dag,) = datetime(2026, 1, 1, tzinfo=UTC), sys.argv[1:]
    found = import_module("airflow.utils.cli").get_bagged_dag(bundle_names=None, dag_id=dag)
    found.test(run_after=date, logical_date=date)
    return 0


PROGRAMS = {"airflow": airflow, "ml-metrics": ml_metrics, "run-of-one-date": run_of_one_date}
NEW = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
