"""The processes of one Airflow: with PostgreSQL and LocalExecutor or Celery, or as `make up` starts it."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_home import BIN, PROJECT, Home
from campaigns.messages.mail_servers import Ledger, MailServer, smtp_connection
from campaigns.processes import settings_of_postgres
from servers.ports import free_port
from servers.postgres import PostgresServer
from servers.redis import RedisServer
from standalone_airflow import Standalone, is_up, stop, token_of, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

PODS = "pods and their API server"
DATABASES = ("postgres", "redis")


class Executor(StrEnum):
    """How Airflow is deployed. The values are words of the table."""

    LOCAL = "LocalExecutor"
    CELERY = "Celery"
    STANDALONE = "`make up`"


@dataclass(frozen=True)
class Deployment:
    """A running Airflow, and what it works with."""

    home: Home
    dags: Path
    airflow: Standalone
    database: str
    """The address of Airflow's own database, which is queried directly: a request would cost the API server time."""
    warehouse: str
    """The address of the database of rows."""
    ledger: Ledger
    names: dict[int, str]
    """The processes by their ids."""
    kubeconfig: str


@contextmanager
def deployed(executor: Executor, folder: Path, parallelism: int | None) -> Iterator[Deployment]:
    """Start an Airflow in a new folder, and stop all its processes afterwards."""
    with ExitStack() as stack:
        folder.chmod(0o755)  # workloads run as other users
        home = Home.make(folder / "airflow")
        dags = folder / "dags"
        dags.mkdir()
        cluster = home.local_cluster()
        kubeconfig = cluster.ensure_running()
        stack.callback(cluster.stop)
        mail = MailServer(Ledger())
        stack.callback(mail.stop)
        port = free_port()
        url = f"http://127.0.0.1:{port}"
        database = warehouse = ""
        names: dict[int, str] = {}
        more = {
            "AIRFLOW__API__PORT": str(port),
            "AIRFLOW__API__BASE_URL": url,
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{url}/execution/",
            "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
            "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
            # tests wait in the triggerer, and so do the pods of the floors: the comparison is of the same work
            "AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE": "True",
            "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "5",
            "AIRFLOW__ML_METRICS__CHANNELS": "smtp",
            "AIRFLOW_CONN_SMTP_DEFAULT": json.dumps(smtp_connection(mail.port)),
        }
        if parallelism is not None:
            more["AIRFLOW__CORE__PARALLELISM"] = str(parallelism)
        if executor is Executor.STANDALONE:
            database = f"sqlite:///{home.path}/airflow.db?timeout=60"
            warehouse = f"sqlite:///{home.path}/ml_metrics/warehouse.db"
        else:
            postgres = PostgresServer()
            stack.callback(postgres.stop)
            names[postgres.process.pid] = DATABASES[0]
            database, warehouse = postgres.new_database(), postgres.new_database()
            more |= settings_of_postgres(database)
            more["AIRFLOW_CONN_ML_METRICS_WAREHOUSE"] = warehouse.replace("postgresql+psycopg:", "postgres:")
        if executor is Executor.CELERY:
            redis = RedisServer()
            stack.callback(redis.stop)
            names[redis.process.pid] = DATABASES[1]
            more |= {
                "AIRFLOW__CORE__EXECUTOR": "CeleryExecutor",
                "AIRFLOW__CELERY__BROKER_URL": redis.url,
                "AIRFLOW__CELERY__RESULT_BACKEND": f"db+{database}",
                "AIRFLOW__CELERY__WORKER_CONCURRENCY": str(parallelism),
                "AIRFLOW__CELERY__EXTRA_CELERY_CONFIG": '{"imports": ["ml_metrics.airflow.celery_imports"]}',
                "AIRFLOW__ML_METRICS__SHARED_DISK": "True",  # the worker is on this machine
            }
        environment = {**home.environment, **more}
        if executor is not Executor.STANDALONE:
            subprocess.run(["airflow", "db", "migrate"], env=environment, check=True, capture_output=True)
        first = None
        for name, command in _commands(executor).items():
            process = _started(command, environment, home.path / f"{name}.log")
            stack.callback(stop, process)
            names[process.pid] = name
            first = first or process
            if first is process:  # the others ask it
                wait_until(lambda: is_up(url), "the API server is up")
        assert first is not None
        airflow = Standalone(url, token_of(home, url), first)
        stack.enter_context(airflow.client)
        yield Deployment(home, dags, airflow, database, warehouse, mail.ledger, names, kubeconfig)


def _commands(executor: Executor) -> dict[str, list[str]]:
    """Return the command of each process, the API server's first."""
    if executor is Executor.STANDALONE:
        return {"standalone": [sys.executable, str(PROJECT / "deploy" / "standalone.py")]}
    found = {
        "api-server": ["airflow", "api-server"],
        "scheduler": ["airflow", "scheduler", "--skip-serve-logs"],
        "dag-processor": ["airflow", "dag-processor"],
        "triggerer": ["airflow", "triggerer", "--skip-serve-logs"],
    }
    if executor is Executor.CELERY:
        found["worker"] = ["airflow", "celery", "worker", "--skip-serve-logs", "--without-gossip", "--without-mingle"]
    return found


def _started(command: list[str], environment: dict[str, str], log: Path) -> subprocess.Popen[bytes]:
    program = [str(BIN / command[0]) if command[0] == "airflow" else command[0], *command[1:]]
    with log.open("wb") as file:
        return subprocess.Popen(program, env=environment, stdout=file, stderr=file, cwd=PROJECT, start_new_session=True)
