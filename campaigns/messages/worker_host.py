"""A process that has imported Airflow, and forks the processes of a deployment: tasks, callbacks, senders.

Usage: worker_host.py FD. Orders come as lines of JSON through a socket, and so do the answers: one when the process was
forked, with its id, and one when it has ended. A forked process leads a session of its own, as an executor's does.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
import traceback
from datetime import datetime, timedelta, tzinfo
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any
from uuid import uuid4

IMPORTED_ONCE = (
    "airflow.dag_processing.processor",
    "airflow.sdk.execution_time.supervisor",
    "airflow.sdk.execution_time.task_runner",
    "ml_metrics.airflow.callbacks",
    "ml_metrics.airflow.dags",
    "psycopg",
    "sendgrid",
)
PACKAGES_IMPORTED_ONCE = ("ml_metrics.alerts", "ml_metrics.alerts.outbox", "ml_metrics.warehouse")
POLL_SECONDS = 0.02


def main(descriptor: int) -> None:
    import_everything()
    orders = socket.socket(fileno=descriptor)
    answer(orders, {"ready": True})
    waiting, running = b"", {}
    while True:
        readable, _, _ = select.select([orders], [], [], POLL_SECONDS)
        received = orders.recv(1 << 16) if readable else b""
        if readable and not received:
            break  # the campaign has ended
        *lines, waiting = (waiting + received).split(b"\n")
        for line in lines:
            carry_out(json.loads(line), orders, running)
        for pid, status in ended():
            if pid in running:
                answer(orders, {"id": running.pop(pid), "ended": os.waitstatus_to_exitcode(status)})
    for pid in running:
        os.killpg(pid, signal.SIGKILL)


def import_everything() -> None:
    for module in IMPORTED_ONCE:
        import_module(module)
    for package in map(import_module, PACKAGES_IMPORTED_ONCE):
        for module in iter_modules(package.__path__, f"{package.__name__}."):
            import_module(module.name)


def carry_out(order: dict[str, Any], orders: socket.socket, running: dict[int, int]) -> None:
    if order["kind"] == "mount":
        subprocess.run(order["command"], check=True)
        answer(orders, {"id": order["id"], "ended": 0})
        return
    pid = fork(order, orders)
    running[pid] = order["id"]
    answer(orders, {"id": order["id"], "pid": pid})


def answer(orders: socket.socket, content: dict[str, Any]) -> None:
    orders.sendall(json.dumps(content).encode() + b"\n")


def ended() -> list[tuple[int, int]]:
    found = []
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if not pid:
            return found
        found.append((pid, status))


def fork(order: dict[str, Any], orders: socket.socket) -> int:
    pid = os.fork()
    if pid:
        return pid
    orders.close()
    os.setsid()
    log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for stream in (1, 2):
        os.dup2(log, stream)
    os.environ.update(order["environment"])
    code = 1
    try:
        for name, seconds in order["constants"].items():
            set_constant(name, seconds)
        if order.get("clock_seconds"):
            set_clock(order["clock_seconds"])
        if order.get("kill_at_effect"):
            kill_at_effect(order["kill_at_effect"], order["kills"], os.getpid() if order["kind"] == "task" else 0)
        code = KINDS[order["kind"]](**order["arguments"])
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)


def run_task(
    *, dag: str, run: str, task: str, try_number: int, retries: int, states: str, dag_file: str = "ml_tests.py"
) -> int:
    """One try of a task, as an executor's worker runs it: under Airflow's own supervisor."""
    import httpx
    from airflow.executors.workloads.base import BundleInfo
    from airflow.sdk.api.client import Client
    from airflow.sdk.api.datamodels._generated import TaskInstance
    from airflow.sdk.execution_time.supervisor import supervise_task

    from campaigns.messages.execution_api import ExecutionApi

    api = ExecutionApi(dag, run, try_number, retries, Path(states))
    client = Client(base_url="http://execution-api.invalid", token="t", transport=httpx.MockTransport(api.answer))
    instance = TaskInstance(
        id=uuid4(), dag_version_id=uuid4(), task_id=task, dag_id=dag, run_id=run, try_number=try_number, map_index=-1
    )
    return supervise_task(
        ti=instance,
        bundle_info=BundleInfo(name="dags-folder"),
        dag_rel_path=dag_file,
        token="t",
        client=client,
        subprocess_logs_to_stdout=True,
    )


def run_lost_task(dag: str, run: str, task: str, dag_file: str) -> int:
    """The callback of a task that was lost with its worker, by the function of Airflow's DAG processor."""
    import structlog
    from airflow.callbacks.callback_requests import TaskCallbackRequest
    from airflow.dag_processing.dagbag import DagBag
    from airflow.dag_processing.processor import _execute_task_callbacks
    from airflow.sdk.api.datamodels._generated import TaskInstance, TIRunContext

    from campaigns.messages.execution_api import context_of

    instance = TaskInstance(
        id=uuid4(), dag_version_id=uuid4(), task_id=task, dag_id=dag, run_id=run, try_number=3, map_index=-1
    )
    request = TaskCallbackRequest.model_construct(
        ti=instance, task_callback_type=None, context_from_server=TIRunContext.model_validate(context_of(dag, run))
    )
    bag = DagBag(Path(os.environ["AIRFLOW__CORE__DAGS_FOLDER"], dag_file))
    assert bag.import_errors == {}, bag.import_errors
    _execute_task_callbacks(bag, request, structlog.get_logger())
    return 0


def run_function(function: str) -> int:
    """Call a function without arguments."""
    module, _, name = function.rpartition(".")
    print(f"{time.time():.3f} {name}: {getattr(import_module(module), name)()}", flush=True)
    return 0


def set_constant(name: str, seconds: float) -> None:
    """Give a constant of the package another value, in each module that has imported it."""
    module, _, constant = name.rpartition(".")
    real = getattr(import_module(module), constant)
    value = timedelta(seconds=seconds) if isinstance(real, timedelta) else seconds
    for loaded in [one for key, one in sys.modules.items() if key.startswith("ml_metrics.")]:
        if loaded.__dict__.get(constant) is real:
            setattr(loaded, constant, value)


CHANGES = frozenset(
    {"os.link", "os.mkdir", "os.remove", "os.rename", "smtplib.connect", "smtplib.send", "socket.connect"}
)
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT


def kill_at_effect(number: int, kills: str, spared: int) -> None:
    """kill -9 this process, or the task that it supervises, just before its nth side effect."""
    left, log = number, os.open(kills, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal left
        opens = event == "open" and isinstance(arguments[0], str) and arguments[2] & WRITES
        changes = event in CHANGES or opens
        if not changes or os.getpid() == spared:
            return
        left -= 1
        if left == 0:
            os.write(log, f"{time.time():.3f} {event} {str(arguments[:1])[:200]}\n".encode())
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def set_clock(seconds: float) -> None:
    """Set the clock of this process, as Python code of the package reads it, ahead or back."""

    class Shifted(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Shifted:
            return super().now(tz) + timedelta(seconds=seconds)

    for name, module in list(sys.modules.items()):
        if name.startswith("ml_metrics") and getattr(module, "datetime", None) is datetime:
            module.datetime = Shifted


KINDS = {"task": run_task, "lost_task": run_lost_task, "function": run_function}

if __name__ == "__main__":
    main(int(sys.argv[1]))
