"""The services of docker-compose.yaml as processes of this machine: same commands, same environment, other places.

What stands for Docker here: paths below /opt lie below a folder of the test, names of services are 127.0.0.1, and
ports are free ones. PostgreSQL is a real one; the mail catcher is another program behind the same port.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from servers.compose_file import PROJECT, load
from servers.ports import free_port
from servers.postgres import PostgresServer, start_postgres
from standalone_airflow import is_up, stop, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

BIN = Path(sys.executable).parent
PORTS = {
    "AIRFLOW__API__PORT": 8080,
    "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_SERVER_PORT": 8974,
    "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": 8793,
    "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": 8794,
}
"""What listens where inside the containers. Here several Airflows may run side by side."""


@dataclass(frozen=True)
class Server:
    """Where the services of one docker-compose.yaml run."""

    folder: Path
    services: dict[str, Any]
    places: dict[str, str]
    ports: dict[str, int]
    configs: Path

    @property
    def url(self) -> str:
        """Airflow's own address."""
        return f"http://127.0.0.1:{self.ports['AIRFLOW__API__PORT']}"

    def here(self, text: str) -> str:
        """A text of the file with each place where it is here."""
        for there, place in self.places.items():
            text = text.replace(there, place)
        return text

    def environment(self, service: str) -> dict[str, str]:
        """What a container would find, and nothing else of this machine than the programs."""
        own = {name: self.here(value) for name, value in self.services[service].get("environment", {}).items()}
        image = {"AIRFLOW_HOME": str(self.folder / "airflow"), "PYTHONUNBUFFERED": "1"}
        machine = {"PATH": f"{BIN}:{os.environ['PATH']}", "HOME": str(self.folder)}
        moved = {name: str(port) for name, port in self.ports.items()} if own else {}
        tests = {"AIRFLOW__ML_METRICS__CONFIG_ROOT": str(self.configs)} if own else {}
        return {**machine, **image, **own, **moved, **tests}

    def once(self, service: str) -> None:
        """Run a service that ends by itself."""
        command = [self.here(word) for word in self.services[service]["command"]]
        with (self.folder / f"{service}.log").open("wb") as log:
            subprocess.run(
                command, env=self.environment(service), cwd=PROJECT, stdout=log, stderr=log, check=True, timeout=300
            )

    @contextmanager
    def running(self, service: str) -> Iterator[subprocess.Popen[bytes]]:
        """Run a service for a while."""
        command = [self.here(word) for word in self.services[service]["command"]]
        with (self.folder / f"{service}.log").open("wb") as log:
            process = subprocess.Popen(
                command,
                env=self.environment(service),
                cwd=PROJECT,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
            try:
                yield process
            finally:
                stop(process)

    def healthy(self, service: str) -> bool:
        """What the service's own health check says."""
        words = [self.here(word) for word in self.services[service]["healthcheck"]["test"][1:]]
        done = subprocess.run(words, env=self.environment(service), cwd=PROJECT, capture_output=True, check=False)
        return done.returncode == 0


@contextmanager
def server(folder: Path, env: dict[str, str], configs: Path) -> Iterator[Server]:
    """PostgreSQL, the mail catcher, the tables, and every process of Airflow and the local cluster."""
    with ExitStack() as stack:
        postgres = start_postgres()
        stack.callback(postgres.stop)
        make_databases(postgres, env)
        mail_port = free_port()
        ports = {name: free_port() for name in PORTS}
        api = ports["AIRFLOW__API__PORT"]
        places = {
            "/opt/airflow": str(folder / "airflow"),
            "/opt/ml-metrics": str(PROJECT),
            "@postgres:5432": f"@127.0.0.1:{postgres.port}",
            "airflow-apiserver:8080": f"127.0.0.1:{api}",
            "localhost:8080": f"127.0.0.1:{api}",
            "localhost:8974": f"127.0.0.1:{ports['AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_SERVER_PORT']}",
            '"host": "mail", "port": 1025': f'"host": "127.0.0.1", "port": {mail_port}',
        }
        made = Server(folder, load(env)["services"], places, ports, configs)
        for name in ("auth", "cluster", "handover", "logs", "outbox", "pods", "runs"):
            (folder / "airflow" / name).mkdir(parents=True)
        stack.enter_context(mails(folder, mail_port))
        made.once("airflow-init")
        stack.enter_context(made.running("local-cluster"))
        wait_until(lambda: made.healthy("local-cluster"), "the local cluster answers")
        made.once("local-kubeconfig")
        stack.enter_context(made.running("airflow-apiserver"))
        stack.enter_context(made.running("airflow-dag-processor"))
        wait_until(lambda: is_up(made.url), "the api-server answers")
        stack.enter_context(made.running("airflow-scheduler"))
        stack.enter_context(made.running("airflow-triggerer"))
        yield made


def make_databases(postgres: PostgresServer, env: dict[str, str]) -> None:
    """Make roles and databases as PostgreSQL's own image does with a new volume."""
    passwords = {name: env[name] for name in ("AIRFLOW_DB_PASSWORD", "ML_METRICS_DB_PASSWORD")}
    script = PROJECT / "deploy" / "postgres-init.sql"
    postgres.run("psql", "--set=ON_ERROR_STOP=1", "--dbname=postgres", f"--file={script}", **passwords)


@contextmanager
def mails(folder: Path, port: int) -> Iterator[None]:
    """A mail server that keeps what comes in a folder."""
    command = ["aiosmtpd", "-n", "-l", f"127.0.0.1:{port}", "-c", "aiosmtpd.handlers.Mailbox", str(folder / "mails")]
    process = subprocess.Popen([BIN / command[0], *command[1:]], stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(timeout=30)


def add_test(folder: Path, name: str, **content: Any) -> str:
    """Write a test file."""
    test = {"name": name, "image": "local/image:1", "owner": "a-new-user", "timeout": "2m", **content}
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.yaml").write_text(json.dumps(test))
    return name
