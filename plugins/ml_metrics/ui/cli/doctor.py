"""Check this installation: versions, settings, connections, rights, run folders, warehouse, clusters and channels. Each
problem comes with its remedy. Exit code 1: a check failed.

Run it where tasks run, with their environment. It starts no workload, sends no message, and creates no table; in a
bucket, it writes, reads and removes a small file.

examples:
  ml-metrics doctor
  ml-metrics doctor --timeout 60 --json
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import asdict
from tempfile import TemporaryDirectory

from ml_metrics.core.text import counted
from ml_metrics.ui.cli.arguments import Arguments, Parser, add_json, add_timeout
from ml_metrics.ui.cli.output import print_json, wrapped

LOGS = "AIRFLOW__LOGGING__BASE_LOG_FOLDER"


def add_arguments(parser: Parser) -> None:
    add_timeout(parser, "each check may take")
    add_json(parser)


def run(arguments: Arguments) -> int:
    output, found = sys.stdout, []
    with _airflows_logs_elsewhere(), redirect_stdout(sys.stderr):  # where Airflow logs, from its import on
        from ml_metrics.airflow import diagnose

        for check in diagnose(arguments.timeout):
            found.append(check)
            if not arguments.json:
                head = f"{'ok' if check.ok else 'WRONG':<6}{check.name:<18} "
                print("\n".join(wrapped(check.message, head, " " * 25)), file=output, flush=True)
    wrong = sum(not check.ok for check in found)
    if arguments.json:
        print_json({"checks": [asdict(check) for check in found]})
    else:
        print(f"{counted(len(found), 'check')}, {wrong or 'none'} wrong.")
    return 1 if wrong else 0


@contextmanager
def _airflows_logs_elsewhere() -> Iterator[None]:
    """Keep Airflow from making the folder of its logs on its import: Airflow's user could not write to that of root."""
    before = os.environ.get(LOGS)
    with TemporaryDirectory() as folder:
        os.environ[LOGS] = folder
        try:
            yield
        finally:
            os.environ.pop(LOGS)
            os.environ.update({} if before is None else {LOGS: before})
