"""An Airflow on many machines, as `deploy/composer.sh` lays it out, with stand-ins for Google's services."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import httpx
import psutil
import yaml

from airflow_home import BIN, PROJECT, Home
from campaigns.machines.machine import Machine, prepare, wait_for_end
from campaigns.machines.services import Services
from campaigns.messages.mail_servers import smtp_connection
from campaigns.processes import settings_of_processes
from ml_metrics.core.settings import Settings
from servers.bigquery import LOCATION
from servers.gcs import BUCKET
from servers.ports import free_port
from standalone_airflow import Standalone, is_up, token_of, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

SPEED = float(os.environ.get("ML_METRICS_MACHINES_SPEED", "8"))
"""How much faster the clock of the campaign is: a delay of Airflow or of a DAG is shorter by this factor."""
START_SECONDS = 240
REQUEST_SECONDS = 120
"""For so long a request is sent again while the API server or its database is away."""
OVERRIDES_LEFT_OUT = "secrets-"
"""Connections are variables of the environment here: Secret Manager has tests of its own."""
CLOCK = f'''
"""The clock of the campaign: what DAGs wait between two tries is shorter."""
def task_policy(task):
    task.retry_delay /= {SPEED}
    if getattr(task, "max_retry_delay", None):
        task.max_retry_delay /= {SPEED}
'''
FAKE_GCLOUD = PROJECT / "tests" / "servers" / "fake_gcloud.py"


@dataclass(frozen=True, slots=True)
class Layout:
    """What differs between the deployments of a campaign."""

    name: str
    deferrable: bool = False
    schedulers: int = 1
    visibility_seconds: int = 3600
    """After this time, redis delivers a task again that no worker has acknowledged."""


LAYOUTS = (
    Layout("as deployed"),
    Layout("deferrable", deferrable=True),
    Layout("two schedulers", schedulers=2),
    Layout("short visibility time-out", visibility_seconds=10),
)


class Api(Standalone):
    """Airflow's REST API, asked again while it is away."""

    def __init__(self, url: str, home: Home, process: subprocess.Popen[bytes]) -> None:
        super().__init__(url, token_of(home, url), process)

    def wait_until_parsed(self, dag: str) -> None:
        def is_there() -> bool:
            with suppress(httpx.TransportError):
                return self.client.get(f"/api/v2/dags/{dag}").status_code == 200
            return False

        wait_until(is_there, f"{dag} is parsed", START_SECONDS)

    def trigger(self, dag: str, conf: dict[str, Any] | None = None, run: str | None = None) -> str:
        """Start a run once, also where the answer to the first request came too late."""
        name = run or f"manual__{uuid4()}"
        try:
            return super().trigger(dag, conf, name)
        except httpx.HTTPStatusError as error:
            if error.response.status_code != httpx.codes.CONFLICT:
                raise
            return name

    def _request(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        deadline = time.monotonic() + REQUEST_SECONDS
        while True:
            try:
                response = self.client.request(method, path, json=body, timeout=10)
                if response.status_code < 500 or time.monotonic() > deadline:
                    return response.raise_for_status().json()
            except httpx.TransportError:
                if time.monotonic() > deadline:
                    raise
            time.sleep(1)


@dataclass
class Deployment:
    """The machines of one layout."""

    layout: Layout
    base: Path
    services: Services
    concurrency: int = 4
    name: str = "nightly"
    port: int = field(default_factory=free_port)
    machines: dict[str, Machine] = field(default_factory=dict)
    root: str = field(default_factory=lambda: f"gs://{BUCKET}/{uuid4()}")
    _ending: threading.Event = field(default_factory=threading.Event)

    def start(self, tests: list[dict[str, Any]]) -> None:
        """Deploy, and start every component."""
        prepare(self.base)
        self.address = self.services.postgres.new_database()
        overrides = deploy(self.base, self.root, self.name)
        self._write_files(tests)
        environment = {**from_overrides(overrides), **self._environment()}
        migrate(self.base, environment)
        for one in self._components(environment):
            self.machines[one.name] = one
            one.start()
        self._watcher = threading.Thread(target=self._replace_what_ends, daemon=True)
        self._watcher.start()
        server = self.machines["api-server"]
        try:
            wait_until(lambda: is_up(self.url), "the API server answers", START_SECONDS)
        except AssertionError:
            log = (self.base / f"{server.name}.log").read_text(errors="replace")
            print(f"{server.name}, started {server.starts} times:\n{log[-4_000:]}", flush=True)
            raise
        assert server.process is not None
        self.api = Api(self.url, Home(server.disk / "airflow"), server.process)

    def stop(self) -> None:
        self._ending.set()
        with suppress(AttributeError):
            self._watcher.join()
            self.api.client.close()
        wait_for_end(list(self.machines.values()), 15)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def runs(self) -> str:
        return f"{self.root}/runs"

    def named(self, component: str) -> list[Machine]:
        """Return the machines of a component."""
        return [one for name, one in sorted(self.machines.items()) if name.rstrip("-0123456789") == component]

    def tasks(self) -> list[psutil.Process]:
        """Return the processes that run the code of a task now."""
        found = []
        for machine in self.named("worker"):
            for one in machine.processes():
                with suppress(psutil.Error):
                    if "airflow worker -- " in " ".join(one.cmdline()):
                        found.append(one)
        return found

    def _replace_what_ends(self) -> None:
        """Replace machines that ended, as Kubernetes does for a Deployment."""
        while not self._ending.wait(0.5):
            for one in self.machines.values():
                if one.has_ended():
                    one.kill()
                    one.start()
                    one.forget()

    def _components(self, environment: dict[str, str]) -> Iterator[Machine]:
        """Yield the machines. docs/composer.md says which of them have which folders."""
        airflow = str(BIN / "airflow")

        def machine(name: str, *command: str, copies: tuple[str, ...] = ()) -> Machine:
            return Machine(name, (airflow, *command), self.base, environment, copies)

        yield machine("api-server", "api-server", "--workers", "1", copies=("plugins",))
        for number in range(self.layout.schedulers):
            yield machine(f"scheduler-{number + 1}", "scheduler", "--skip-serve-logs")
        yield machine("dag-processor", "dag-processor", copies=("dags",))
        yield machine("triggerer", "triggerer", "--skip-serve-logs")
        for number in (1, 2):
            worker = ("celery", "worker", "--skip-serve-logs", "--concurrency", str(self.concurrency))
            named = ("--celery-hostname", f"worker-{number}@%h")
            yield machine(f"worker-{number}", *worker, *named, copies=("dags", "plugins"))

    def _write_files(self, tests: list[dict[str, Any]]) -> None:
        """Replace the examples by the campaign's tests."""
        configs = self.base / "deployed" / "dags" / "include" / "metric_configs"
        shutil.rmtree(configs)
        configs.mkdir()
        for test in tests:
            (configs / f"{test['name']}.yaml").write_text(json.dumps(test))
        (self.base / "deployed" / "config").mkdir()
        (self.base / "deployed" / "config" / "airflow_local_settings.py").write_text(CLOCK)

    def cloud(self) -> dict[str, str]:
        """Return the variables with which a process uses the stand-in of Google Cloud Storage."""
        return self.services.gcs.environment

    def _environment(self) -> dict[str, str]:
        kubeconfig = yaml.safe_load(Path(self.services.cluster.ensure_running()).read_text())
        connections = {
            "accelerators": {
                "conn_type": "kubernetes",
                "extra": {"kube_config": json.dumps(kubeconfig), "namespace": "default"},
            },
            "smtp_default": smtp_connection(self.services.mail.port),
            "google_cloud_default": {
                "conn_type": "google_cloud_platform",
                "extra": {"is_anonymous": True, "project": "my-project"},
            },
        }
        return {
            **self.cloud(),
            **self.services.warehouse.environment(),
            **{f"AIRFLOW_CONN_{name.upper()}": json.dumps(value) for name, value in connections.items()},
            **settings_of_processes(self.url, self.address, self.services.redis.url),
            "COMPOSER_ENVIRONMENT": self.name,
            "AIRFLOW__CORE__EXECUTOR": "CeleryExecutor",
            "AIRFLOW__CORE__PARALLELISM": "16",
            "AIRFLOW__CELERY__EXTRA_CELERY_CONFIG": '{"imports": ["ml_metrics.airflow.celery_imports"]}',
            "AIRFLOW__CELERY_BROKER_TRANSPORT_OPTIONS__VISIBILITY_TIMEOUT": str(self.layout.visibility_seconds),
            "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "300",
            "AIRFLOW__DAG_PROCESSOR__PARSING_PROCESSES": "1",
            "AIRFLOW__LOGGING__REMOTE_LOGGING": "True",
            "AIRFLOW__LOGGING__REMOTE_BASE_LOG_FOLDER": f"{self.root}/logs",
            "AIRFLOW__LOGGING__REMOTE_LOG_CONN_ID": "google_cloud_default",
            "AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE": str(self.layout.deferrable),
            **_faster(),
        }


def _faster() -> dict[str, str]:
    """Return Airflow's own delays on the clock of the campaign, none below what its components need to breathe."""
    return {
        "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": str(max(15, int(300 / SPEED))),
        "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_DETECTION_INTERVAL": "5",
        "AIRFLOW__SCHEDULER__TASK_QUEUED_TIMEOUT": str(max(10, int(120 / SPEED))),
        "AIRFLOW__SCHEDULER__TASK_QUEUED_TIMEOUT_CHECK_INTERVAL": "5",
        "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "15",
        "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": "10",
        "AIRFLOW__TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": "10",
    }


def deploy(base: Path, root: str, name: str) -> dict[str, str]:
    """Deploy to a fake of Composer, and return its overrides. The files are in `base/deployed`."""
    gcloud = base / "gcloud" / "bin" / "gcloud"
    gcloud.parent.mkdir(parents=True)
    gcloud.write_text(f'#!/bin/sh\nexec {sys.executable} {FAKE_GCLOUD} "$@"\n')
    gcloud.chmod(0o755)
    options = {
        "environment": "nightly",
        "deployment": name,
        "location": "us-central1",
        "storage-root": f"{root}/runs",
        "outbox": f"{root}/outbox",
        "channels": "smtp",
    }
    settings = {
        "kubernetes_conn_id": "accelerators",
        "bigquery_location": LOCATION,
        "mails_per_hour": "100000",
        "mass_failure_tests": "0",
        "mass_failure_percent": "0",
    }
    command = [argument for name, value in options.items() for argument in (f"--{name}", value)]
    command += [argument for pair in settings.items() for argument in ("--set", "=".join(pair))]
    environment = {"PATH": f"{gcloud.parent}:/usr/bin:/bin", "FAKE_GCLOUD": str(base / "gcloud")}
    done = subprocess.run(
        ["bash", str(PROJECT / "deploy" / "composer.sh"), *command],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    shutil.move(base / "gcloud" / "bucket", base / "deployed")
    software: dict[str, dict[str, str]] = json.loads((base / "gcloud" / "software.json").read_text())
    return software["airflowConfigOverrides"]


def from_overrides(overrides: dict[str, str]) -> dict[str, str]:
    """Return the variables that have the effect of Composer's overrides."""
    kept = {name: value for name, value in overrides.items() if not name.startswith(OVERRIDES_LEFT_OUT)}
    own = {name.removeprefix("ml_metrics-") for name in kept if name.startswith("ml_metrics-")}
    assert own <= set(Settings.__dataclass_fields__), own
    return {f"AIRFLOW__{name.replace('-', '__', 1).upper()}": value for name, value in kept.items()}


def migrate(base: Path, environment: dict[str, str]) -> None:
    """Make Airflow's tables."""
    home = base / "migration"
    home.mkdir()
    with (base / "migration.log").open("wb") as log:
        subprocess.run(
            [BIN / "airflow", "db", "migrate"],
            env={**os.environ, **environment, "AIRFLOW_HOME": str(home), "PYTHONWARNINGS": ""},
            stdout=log,
            stderr=log,
            check=True,
        )
