"""An Airflow that is imported once and carries out commands in forks: a cold start takes longer than most of them.

Usage: python warm_airflow.py; each line of its input is an order in JSON, each line of its output an exit code.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import traceback
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from runpy import run_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_home import Home

IMPORTED_ONCE = (
    "airflow.api_fastapi.execution_api.app",
    "airflow.cli.commands.dag_command",
    "airflow.cli.commands.dag_processor_command",
    "airflow.sdk.execution_time.supervisor",
    "kubernetes.client",
    "kubernetes_asyncio.client",
    "ml_metrics.dags",
    "ml_metrics.operators.run_hosts",
)
LONGEST_SECONDS = 300
"""A command that takes longer is killed."""


class WarmAirflow:
    """A process that has imported Airflow."""

    def __init__(self, process: subprocess.Popen[str], output: Path) -> None:
        self._process, self._output = process, output

    def airflow(self, *argv: str) -> tuple[int, str]:
        """Run an `airflow` command, and return its exit code and output."""
        return self._carry_out("airflow", argv)

    def ml_metrics(self, *argv: str) -> tuple[int, str]:
        """Run an `ml-metrics` command, and return its exit code and output."""
        return self._carry_out("ml_metrics", argv)

    def run(self, *tests: str) -> dict[str, tuple[int, str]]:
        """Run tests one after the other, and return each test's exit code and output."""
        return {test: self.airflow("dags", "test", test) for test in tests}

    def run_again(self, test: str) -> tuple[int, str]:
        """Run a test as the run of one date: the second time, that is the same run, cleared."""
        return self._carry_out("run_of_one_date", (test,))

    def _carry_out(self, action: str, arguments: tuple[str, ...]) -> tuple[int, str]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        order = {"action": action, "arguments": arguments, "output": str(self._output)}
        print(json.dumps(order), file=self._process.stdin, flush=True)
        return int(self._process.stdout.readline()), self._output.read_text(errors="replace")


@contextmanager
def warm_airflow(home: Home, **more: str) -> Iterator[WarmAirflow]:
    """Start the process, with more variables in its environment."""
    beside = home.path.with_name(f"{home.path.name}-warm")
    with (
        beside.with_suffix(".log").open("wb") as log,
        subprocess.Popen(
            [sys.executable, __file__],
            env={**home.environment, **more},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        ) as process,
    ):  # which ends with its input
        yield WarmAirflow(process, beside.with_suffix(".output"))


def main() -> None:
    """Carry out orders until there are no more."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # imports say something, too
    for module in IMPORTED_ONCE:
        import_module(module)
    for line in sys.stdin:
        order = json.loads(line)
        child = os.fork()
        if not child:
            leave_streams(order["output"])
            os._exit(exit_code(order["action"], order["arguments"]))
        print(exit_code_of(child), file=answers, flush=True)


def leave_streams(output: str) -> None:
    """Read nothing from where orders come from, and write into a file."""
    for stream, path, mode in ((0, os.devnull, os.O_RDONLY), (1, output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)):
        os.dup2(os.open(path, mode, 0o600), stream)
    os.dup2(1, 2)


def exit_code(action: str, arguments: list[str]) -> int:
    try:
        ACTIONS[action](*arguments)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(bool(ended.code))
    except BaseException:  # noqa: BLE001  (the fork ends here in any case)
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return 0


def exit_code_of(child: int) -> int:
    """Wait for a process, for so long as it may take."""
    deadline = time.monotonic() + LONGEST_SECONDS
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.02)


def airflow(*argv: str) -> None:
    from airflow.cli.cli_parser import get_parser

    sys.argv = ["airflow", *argv]
    arguments = get_parser().parse_args(argv)
    arguments.func(arguments)


def ml_metrics(*argv: str) -> None:
    sys.argv = ["ml-metrics", *argv]
    run_module("ml_metrics.cli", run_name="__main__")


def run_of_one_date(dag: str) -> None:
    """`airflow dags test` names each of its runs by the time of day."""
    from datetime import UTC, datetime

    from airflow.utils.cli import get_bagged_dag

    date = datetime(2026, 1, 1, tzinfo=UTC)
    get_bagged_dag(bundle_names=None, dag_id=dag).test(run_after=date, logical_date=date)


ACTIONS = {"airflow": airflow, "ml_metrics": ml_metrics, "run_of_one_date": run_of_one_date}

if __name__ == "__main__":
    main()
