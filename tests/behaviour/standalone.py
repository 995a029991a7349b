"""A real `airflow standalone`, driven through Airflow's REST API."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import httpx
import psutil

from behaviour.home import PROJECT, Home
from servers.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PATIENCE = 300
"""Seconds that anything may take before the test gives up on it."""
BUSY_TRIES = 15
"""How often a question is asked where SQLite is busy, two seconds apart."""


class Standalone:
    """The REST API of a running Airflow, and a hand on its processes."""

    def __init__(self, url: str, token: str, process: subprocess.Popen[bytes]) -> None:
        self.url, self.token = url, token
        self.client = httpx.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=60)
        self.process = process
        self.killed: set[str] = set()
        """The task instances that were killed. Each try of a task is one of its own."""
        # Airflow on SQLite locks itself out when requests that change something come side by side
        self.changing = threading.Lock()

    def trigger(self, dag: str, conf: dict[str, Any] | None = None, run: str | None = None) -> str:
        """Start a run, of that name if one is given, and return its name."""
        body = {"conf": conf or {}, "logical_date": None, "dag_run_id": run}
        name: str = self._change("POST", f"/api/v2/dags/{dag}/dagRuns", body)["dag_run_id"]
        return name

    def parsed(self, dag: str) -> None:
        """Wait until Airflow knows a DAG."""
        until(lambda: self.client.get(f"/api/v2/dags/{dag}").status_code == 200, f"{dag} is parsed")

    def unpause(self, dag: str) -> None:
        self.parsed(dag)
        self._change("PATCH", f"/api/v2/dags/{dag}", {"is_paused": False})

    def tasks(self, dag: str, run: str) -> dict[str, dict[str, Any]]:
        found = self._get(f"/api/v2/dags/{dag}/dagRuns/{quote(run)}/taskInstances")["task_instances"]
        return {one["task_id"]: one for one in found}

    def ended(self, dag: str, run: str, patience: float = PATIENCE) -> str:
        """Wait until a run has ended, and return its state."""
        until(lambda: self.run(dag, run)["state"] in {"success", "failed"}, f"{dag} {run} ends", patience)
        state: str = self.run(dag, run)["state"]
        return state

    def run(self, dag: str, run: str) -> dict[str, Any]:
        found: dict[str, Any] = self._get(f"/api/v2/dags/{dag}/dagRuns/{quote(run)}")
        return found

    def clear(self, dag: str, run: str, task: str) -> None:
        body = {
            "dry_run": False,
            "dag_run_id": run,
            "task_ids": [task],
            "include_downstream": True,
            "only_failed": False,
        }
        self._change("POST", f"/api/v2/dags/{dag}/clearTaskInstances", body)

    def kill(self, dag: str, run: str, task: str) -> None:
        """kill -9 the process of a task as soon as it has one; each time in another try.

        A task takes tenths of a second, so Airflow is only asked which one it will be, and the processes are looked at.
        """
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            instance = self.tasks(dag, run).get(task, {}).get("id")
            next_question = time.monotonic() + 1
            while instance not in {None, *self.killed} and time.monotonic() < next_question:
                if process := self._process_of(instance):
                    process.kill()
                    self.killed.add(instance)
                    return
                time.sleep(0.02)
            time.sleep(0.02)
        raise AssertionError(f"{task} of {dag} had no process in {PATIENCE} s")

    def kill_now(self, dag: str, run: str, task: str) -> None:
        """kill -9 the process of a task, if it has one."""
        instance = self.tasks(dag, run).get(task)
        if instance and instance["state"] == "running" and (process := self._process_of(instance["id"])):
            process.kill()

    def _process_of(self, instance: str) -> psutil.Process | None:
        """The process that runs the task's own code; its title names the task instance."""
        title = f"airflow worker -- {instance}"
        for process in psutil.Process(self.process.pid).children(recursive=True):
            try:
                if title in " ".join(process.cmdline()):
                    return process
            except psutil.Error:
                continue
        return None

    def _get(self, path: str) -> Any:
        return self._ask("GET", path)

    def _change(self, method: str, path: str, body: dict[str, Any]) -> Any:
        with self.changing:
            return self._ask(method, path, body)

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """Ask; and again where SQLite was busy, as Airflow's own clients do.

        Airflow writes its log of such requests on the event loop, and waits there for SQLite's lock; the task that
        holds the lock needs that loop to let go. After five seconds the request is refused, and nothing was changed.
        """
        for _ in range(BUSY_TRIES):
            answer = self.client.request(method, path, json=body)
            if answer.status_code < 500:
                break
            time.sleep(2)
        return answer.raise_for_status().json()


@contextmanager
def standalone(home: Home, heartbeat: int = 30) -> Iterator[Standalone]:
    """Start Airflow, and end every process of it afterwards. A task that is silent for `heartbeat` seconds is lost."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    environment = {
        **home.environment,
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__API__BASE_URL": url,
        "AIRFLOW__CORE__DEFAULT_TASK_RETRY_DELAY": "1",
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{url}/execution/",
        "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": str(heartbeat),
        "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(free_port()),
        "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": str(free_port()),
    }
    with (home.path / "standalone.log").open("wb") as log:
        process = subprocess.Popen(
            ["airflow", "standalone"], env=environment, stdout=log, stderr=log, cwd=PROJECT, start_new_session=True
        )
        try:
            until(lambda: answers(url), "airflow standalone answers")
            running = Standalone(url, token_of(home, url), process)
            with running.client:
                yield running
        finally:
            end(process)


def password(home: Home, user: str) -> str:
    passwords: dict[str, str] = json.loads((home.path / "simple_auth_manager_passwords.json.generated").read_text())
    return passwords[user]


def token_of(home: Home, url: str, user: str = "admin") -> str:
    login = {"username": user, "password": password(home, user)}
    answer = httpx.post(f"{url}/auth/token", json=login, timeout=60)
    token: str = answer.raise_for_status().json()["access_token"]
    return token


def answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/api/v2/version", timeout=5).status_code == 200
    except httpx.HTTPError:
        return False


def until(true: Callable[[], bool], what: str, seconds: float = PATIENCE) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"waited {seconds} s in vain until {what}"
        time.sleep(0.2)


def end(process: subprocess.Popen[bytes]) -> None:
    """SIGTERM, as a person would; what has not ended after a while is killed."""
    family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
    os.killpg(process.pid, signal.SIGTERM)
    _, alive = psutil.wait_procs(family, timeout=30)
    for one in alive:
        one.kill()
    process.wait()
