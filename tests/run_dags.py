"""`airflow dags test` for several DAGs, which share Airflow's imports, because those take longer than a run.

Usage: python run_dags.py DAG...; each DAG runs in a fork. Its output is enclosed in lines that start with MARK.
"""

from __future__ import annotations

import os
import sys
import traceback
from importlib import import_module

MARK = "\x1f"
IMPORTED_ONCE = (
    "airflow.api_fastapi.execution_api.app",
    "airflow.cli.commands.dag_command",
    "airflow.sdk.execution_time.supervisor",
    "kubernetes.client",
    "kubernetes_asyncio.client",
    "ml_metrics.dags",
    "ml_metrics.operators.run_hosts",
)
"""Modules that every run needs, imported before the forks."""


def main(dags: list[str]) -> None:
    """Run the DAGs, even if one fails."""
    for module in IMPORTED_ONCE:
        import_module(module)
    for dag in dags:
        print(f"{MARK}{dag}", flush=True)
        child = os.fork()
        if not child:
            os._exit(run(dag))
        _, status = os.waitpid(child, 0)
        print(f"\n{MARK}{os.waitstatus_to_exitcode(status)}", flush=True)


def run(dag: str) -> int:
    """Run one DAG in a fork, and return its exit code."""
    from airflow.cli.cli_parser import get_parser

    sys.argv = ["airflow", "dags", "test", dag]
    try:
        arguments = get_parser().parse_args(sys.argv[1:])
        arguments.func(arguments)
    except SystemExit as ended:
        return int(bool(ended.code))
    except BaseException:  # noqa: BLE001  (the fork ends here in any case)
        traceback.print_exc(file=sys.stdout)
        return 1
    finally:
        sys.stdout.flush()
    return 0


def parse_output(output: str) -> dict[str, tuple[int, str]]:
    """Return each DAG's exit code and output."""
    parts = output.split(MARK)[1:]
    found = {}
    for part, end in zip(parts[::2], parts[1::2], strict=True):
        dag, _, text = part.partition("\n")
        found[dag] = (int(end.partition("\n")[0]), text)
    return found


if __name__ == "__main__":
    main(sys.argv[1:])
