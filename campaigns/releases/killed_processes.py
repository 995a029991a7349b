"""Kills processes of gates and of a release DAG at chosen points; the campaign copies it beside Airflow's settings.

A file in the folder `POINTS`, named `<dag>.<point>`, is a kill -9 that waits. The first process at the point removes
it and dies, so that the next try of the task goes on.
"""

from __future__ import annotations

import os
import signal
from functools import partial
from pathlib import Path
from typing import Any

POINTS = Path(__file__).parent / "points"
RELEASE = "release-when-green"


def task_policy(task: Any) -> None:
    """Let Airflow call this for each task of each DAG that a process parses."""
    if task.task_id == "assert_success":
        task.on_execute_callback = [partial(_begin_gate, task.dag_id)]
        task.on_success_callback = [lambda _: die(task.dag_id, "ended"), *task.on_success_callback]
    elif task.dag_id == RELEASE and task.is_mapped:
        task.partial_kwargs["on_execute_callback"] = [_begin_trigger]
    elif task.dag_id == RELEASE:
        task.on_execute_callback = [lambda _: die(RELEASE, "looks")]


def die(dag: str, point: str) -> None:
    """End this process at once if a kill waits at the point."""
    try:
        (POINTS / f"{dag}.{point}").unlink()
    except FileNotFoundError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


def _begin_gate(dag: str, _: Any) -> None:
    from ml_metrics.airflow.operators import tasks

    die(dag, "begins")
    _die_after(tasks, "emit_passed", dag, "emitted")


def _begin_trigger(_: Any) -> None:
    from airflow.sdk.execution_time import task_runner

    die(RELEASE, "triggers")
    _die_after(task_runner, "_handle_trigger_dag_run", RELEASE, "triggered")


def _die_after(module: Any, name: str, dag: str, point: str) -> None:
    """Put a point behind a function, for the rest of this process: it runs one task."""
    function = getattr(module, name)

    def called(*given: Any) -> Any:
        found = function(*given)
        die(dag, point)
        return found

    setattr(module, name, called)
