"""`airflow dags test` for several DAGs: Airflow's imports, which take longer than a run, are paid once.

python run_in_turn.py DAG...; each runs in a fork. A line that begins with MARK stands before and after what it says.
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
"""What a run imports and keeps for itself; before the forks, it is there for all."""


def main(dags: list[str]) -> None:
    """Run them, whatever becomes of one."""
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
    """Run one, in a fork, and return its exit code."""
    from airflow.cli.cli_parser import get_parser

    sys.argv = ["airflow", "dags", "test", dag]
    try:
        arguments = get_parser().parse_args(sys.argv[1:])
        arguments.func(arguments)
    except SystemExit as ended:
        return int(bool(ended.code))
    except BaseException:  # noqa: BLE001  (this is where the fork ends, however that comes about)
        traceback.print_exc(file=sys.stdout)
        return 1
    finally:
        sys.stdout.flush()
    return 0


def said_by_each(output: str) -> dict[str, tuple[int, str]]:
    """By DAG: its exit code, and what it said."""
    parts = output.split(MARK)[1:]
    found = {}
    for said, end in zip(parts[::2], parts[1::2], strict=True):
        dag, _, text = said.partition("\n")
        found[dag] = (int(end.partition("\n")[0]), text)
    return found


if __name__ == "__main__":
    main(sys.argv[1:])
