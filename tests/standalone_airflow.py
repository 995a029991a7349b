"""A real Airflow as `make up` starts it, driven through Airflow's REST API."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import httpx
import psutil

from airflow_home import PROJECT, Home
from servers.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

TIMEOUT_SECONDS = 300
START_SECONDS = 900
"""How long Airflow may take to start, and to answer a request: on a busy machine, many times what it takes alone."""

KILLS = '''
"""A process of a task that is to be killed kills itself: seen from outside, it may be over too soon."""
import os
import signal
from functools import partial
from pathlib import Path
from urllib.parse import quote

def dag_policy(dag):
    for task in dag.tasks:
        task.pre_execute = partial(die_if_ordered, then=task.pre_execute)

def die_if_ordered(context, then):
    ti = context["ti"]
    order = Path(os.environ["AIRFLOW_HOME"], "kills", quote(f"{ti.dag_id} {ti.run_id} {ti.task_id}", safe=""))
    if order.exists():
        if times := int(order.read_text()) - 1:
            order.write_text(str(times))
        else:
            order.unlink()
        os.kill(os.getpid(), signal.SIGKILL)
    then(context)
'''


def kill_next(home: Home, dag: str, run: str, task: str, times: int = 1) -> None:
    """kill -9 the next processes of a task before they have done anything. The home needs the policy KILLS."""
    order = home.path / "kills" / quote(f"{dag} {run} {task}", safe="")
    order.parent.mkdir(exist_ok=True)
    order.write_text(str(times))
    wait_until(lambda: not order.exists(), f"a process of {task} of {dag} has died", START_SECONDS)


class Standalone:
    """The REST API of a running Airflow, and access to its processes."""

    def __init__(self, url: str, token: str, process: subprocess.Popen[bytes]) -> None:
        self.url, self.token = url, token
        self.client = httpx.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=START_SECONDS)
        self.process = process

    def is_healthy(self) -> bool:
        """Say whether the scheduler, the DAG processor and the triggerer have been heard of lately."""
        parts = self._request("GET", "/api/v2/monitor/health")
        return all(parts[one]["status"] == "healthy" for one in ("scheduler", "dag_processor", "triggerer"))

    def trigger(self, dag: str, conf: dict[str, Any] | None = None, run: str | None = None) -> str:
        """Start a run, with this name if one is given, and return its name."""
        body = {"conf": conf or {}, "logical_date": None, "dag_run_id": run}
        name: str = self._request("POST", f"/api/v2/dags/{dag}/dagRuns", body)["dag_run_id"]
        return name

    def wait_until_parsed(self, dag: str) -> None:
        """Wait until Airflow has parsed a DAG."""
        path = f"/api/v2/dags/{dag}"
        wait_until(lambda: self.client.get(path).status_code == 200, f"{dag} is parsed", START_SECONDS)

    def unpause(self, dag: str) -> None:
        self.wait_until_parsed(dag)
        self._request("PATCH", f"/api/v2/dags/{dag}", {"is_paused": False})

    def tasks(self, dag: str, run: str) -> dict[str, dict[str, Any]]:
        found = self._request("GET", f"/api/v2/dags/{dag}/dagRuns/{quote(run)}/taskInstances")["task_instances"]
        return {one["task_id"]: one for one in found}

    def is_watched(self, dag: str, run: str) -> bool:
        """Say whether the triggerer watches the pod of a run, by our trigger or by the provider's."""
        trigger = self.tasks(dag, run)["run_workload"].get("trigger") or {}
        return str(trigger.get("classpath")).endswith("PodTrigger")

    def has_ended(self, dag: str, run: str) -> bool:
        return self.run(dag, run)["state"] in {"success", "failed"}

    def wait_until_ended(self, dag: str, run: str, timeout: float = TIMEOUT_SECONDS) -> str:
        """Wait until a run has ended, and return its state."""
        wait_until(lambda: self.has_ended(dag, run), f"{dag} {run} ends", timeout)
        state: str = self.run(dag, run)["state"]
        return state

    def runs(self, dag: str) -> dict[str, dict[str, Any]]:
        found = self._request("GET", f"/api/v2/dags/{dag}/dagRuns?limit=1000")["dag_runs"]
        return {one["dag_run_id"]: one for one in found}

    def run(self, dag: str, run: str) -> dict[str, Any]:
        found: dict[str, Any] = self._request("GET", f"/api/v2/dags/{dag}/dagRuns/{quote(run)}")
        return found

    def clear(self, dag: str, run: str, task: str) -> None:
        body = {
            "dry_run": False,
            "dag_run_id": run,
            "task_ids": [task],
            "include_downstream": True,
            "only_failed": False,
        }
        self._request("POST", f"/api/v2/dags/{dag}/clearTaskInstances", body)

    def kill_now(self, dag: str, run: str, task: str) -> None:
        """kill -9 the process of a task, if it has one."""
        if process := self.process_of(dag, run, task):
            process.kill()

    def stop_worker(self, dag: str, run: str, task: str) -> None:
        """Send SIGTERM to all processes of the worker that runs a task: the task's code, and what supervises it."""
        wait_until(lambda: self.process_of(dag, run, task) is not None, f"{task} of {dag} runs")
        process = self.process_of(dag, run, task)
        assert process is not None
        supervisor = process.parent()
        assert supervisor is not None
        for one in (supervisor, process):
            one.terminate()

    def mark(self, dag: str, run: str, task: str, state: str) -> None:
        """Mark a task, as a person does in the UI."""
        self._request("PATCH", f"/api/v2/dags/{dag}/dagRuns/{quote(run)}/taskInstances/{task}", {"new_state": state})

    def processes_of(self, service: str) -> list[psutil.Process]:
        """Return the process of a service of `make up`; none while it is being started again."""
        found = []
        for one in psutil.Process(self.process.pid).children():
            with suppress(psutil.Error):
                if f"airflow {service}" in " ".join(one.cmdline()):  # empty of one that was killed
                    found.append(one)
        return found

    def kill_service(self, service: str) -> None:
        """kill -9 a service with all that it has started, and wait until `make up` has started another."""
        (process,) = self.processes_of(service)
        for one in (*process.children(recursive=True), process):
            with suppress(psutil.NoSuchProcess):
                one.kill()
        wait_until(lambda: any(one.pid != process.pid for one in self.processes_of(service)), f"another {service} runs")

    def listens_on(self) -> dict[str, str]:
        """Return each address on which a process of this Airflow listens, with the command of that process."""
        family = [self.process.pid, *(one.pid for one in psutil.Process(self.process.pid).children(recursive=True))]
        found = {}
        for pid in family:
            with suppress(psutil.NoSuchProcess):
                one = psutil.Process(pid)
                command = " ".join(one.cmdline())
                sockets = [two for two in one.net_connections("inet") if two.status == psutil.CONN_LISTEN]
                found |= {f"{two.laddr.ip}:{two.laddr.port}": command for two in sockets}
        return found

    def process_of(self, dag: str, run: str, task: str) -> psutil.Process | None:
        """Return the process that runs a task's code now; None if it does not run."""
        instance = self.tasks(dag, run).get(task)
        if not instance or instance["state"] != "running":
            return None
        title = f"airflow worker -- {instance['id']}".encode()
        for pid in psutil.pids():  # read directly: a task may end before psutil has asked for everything about all
            with suppress(OSError, psutil.NoSuchProcess):
                if title in Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" "):
                    return psutil.Process(pid)
        return None

    def _request(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        return self.client.request(method, path, json=body).raise_for_status().json()


@contextmanager
def api_server(home: Home) -> Iterator[Standalone]:
    """Start Airflow's API server alone, for tests of pages: it knows all DAGs, and no run goes on."""
    home.airflow("dags", "reserialize").check_returncode()
    with standalone(home, program=("deploy/api_server.py", "api-server", "--workers", "1")) as running:
        yield running


@contextmanager
def standalone(
    home: Home,
    heartbeat: int = 30,
    program: Sequence[str] = ("deploy/standalone.py",),
    python: str | Path = sys.executable,
    **variables: str,
) -> Iterator[Standalone]:
    """Start Airflow, and stop all its processes afterwards. A task without a heartbeat for so many seconds is lost."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    environment = {
        **home.environment,
        **variables,
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__API__BASE_URL": url,
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{url}/execution/",
        "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": str(heartbeat),
    }
    with (home.path / "standalone.log").open("wb") as log:
        process = subprocess.Popen(
            [python, *program],
            env=environment,
            stdout=log,
            stderr=log,
            cwd=PROJECT,
            start_new_session=True,
        )
        try:
            wait_until(lambda: process.poll() is not None or is_up(url), "airflow standalone is up", START_SECONDS)
            assert process.poll() is None, f"airflow standalone has ended; see {home.path / 'standalone.log'}"
            running = Standalone(url, token_of(home, url), process)
            with running.client:
                yield running
        finally:
            stop(process)


def password(home: Home, user: str) -> str:
    passwords: dict[str, str] = json.loads((home.path / "simple_auth_manager_passwords.json.generated").read_text())
    return passwords[user]


def token_of(home: Home, url: str, user: str = "admin") -> str:
    login = {"username": user, "password": password(home, user)}
    response = httpx.post(f"{url}/auth/token", json=login, timeout=START_SECONDS)
    token: str = response.raise_for_status().json()["access_token"]
    return token


def is_up(url: str) -> bool:
    try:
        return httpx.get(f"{url}/api/v2/version", timeout=60).status_code == 200
    except httpx.HTTPError:
        return False


def wait_until(condition: Callable[[], bool], description: str, seconds: float = TIMEOUT_SECONDS) -> None:
    """Look again and again, less often as time passes: each look at Airflow costs its API server as much as a task."""
    deadline, pause = time.monotonic() + seconds, 0.1
    while not condition():
        assert time.monotonic() < deadline, f"waited {seconds} s in vain until {description}"
        time.sleep(pause)
        pause = min(1.2 * pause, 1.0)


def stop(process: subprocess.Popen[bytes]) -> None:
    """Send SIGTERM, and kill the processes that have not ended after 30 seconds."""
    family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
    os.killpg(process.pid, signal.SIGTERM)
    _, alive = psutil.wait_procs(family, timeout=30)
    for one in alive:
        with suppress(psutil.NoSuchProcess):
            one.kill()
    process.wait()
