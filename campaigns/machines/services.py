"""What the machines of a deployment share: broker, database, bucket, warehouse, mail, and a cluster."""

from __future__ import annotations

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, Self

import psutil

from campaigns.messages.mail_servers import Ledger, MailServer
from campaigns.messages.warehouses import BigQuery, HangingProxy
from local_kube import LocalCluster
from local_kube.pods.confinement import Confinement
from ml_metrics.airflow.clusters.manifests import RUN_FOLDER_ANNOTATION
from servers.engines import start_bigquery
from servers.faulty_proxy import Fault
from servers.gcs import GcsServer
from servers.postgres import start_postgres
from servers.redis import RedisServer

if TYPE_CHECKING:
    import subprocess

    from servers.bigquery import BigQueryServer
    from servers.postgres import PostgresServer

SERVICES = ("redis", "PostgreSQL", "the bucket", "the warehouse")


class Server(Protocol):
    """A server that can be killed and started again with what it holds."""

    process: subprocess.Popen[bytes]

    def kill(self) -> None: ...

    def start(self) -> None: ...


@dataclass
class Services:
    """The servers. Each can be away for a while: it hangs, or it refuses connections."""

    shared: Path
    """A folder in which workloads leave traces; no component of Airflow looks there."""
    redis: RedisServer
    postgres: PostgresServer
    gcs: GcsServer
    bigquery: BigQueryServer
    warehouse: BigQuery
    mail: MailServer
    cluster: LocalCluster
    _stack: ExitStack = field(default_factory=ExitStack)

    @classmethod
    def start(cls, base: Path) -> Self:
        """Start all, at the same time."""
        shared = base.with_name(f"{base.name}-shared")
        shared.mkdir()
        shared.chmod(0o777)  # workloads run as other users
        confinement = Confinement(shared=(shared,), folder_annotation=RUN_FOLDER_ANNOTATION)
        cluster = LocalCluster(str(base / "cluster"), confinement=confinement)
        with ThreadPoolExecutor() as threads, ExitStack() as stack:
            starts = [threads.submit(one) for one in (RedisServer, start_postgres, GcsServer, start_bigquery)]
            stack.callback(cluster.stop)
            threads.submit(cluster.ensure_running).result()
            wait(starts)
            for one in starts:
                if not one.exception():  # where one is not installed, the others have started
                    stack.callback(one.result().stop)
            redis, postgres, gcs, bigquery = (one.result() for one in starts)
            proxy = HangingProxy(bigquery.port)
            warehouse = BigQuery(bigquery, bigquery.new_dataset(), proxy, Fault.BUSY)
            stack.callback(warehouse.stop)
            mail = MailServer(Ledger())
            stack.callback(mail.stop)
            return cls(shared, redis, postgres, gcs, bigquery, warehouse, mail, cluster, stack.pop_all())

    def stop(self) -> None:
        for server in (self.redis, self.postgres, self.gcs):
            resume(server.process.pid)
        self._stack.close()

    def take_away(self, service: str, seconds: float, *, hangs: bool) -> None:
        """Let a service hang for so many seconds, or refuse."""
        if service == "the warehouse":
            self.warehouse.fault = None if hangs else Fault.BUSY
            self.warehouse.fail()
            time.sleep(seconds)
            self.warehouse.recover()
            return
        servers: dict[str, Server] = {"redis": self.redis, "PostgreSQL": self.postgres, "the bucket": self.gcs}
        server = servers[service]
        if hangs:
            signal_family(server.process.pid, signal.SIGSTOP)
        else:
            server.kill()
        time.sleep(seconds)
        if hangs:
            resume(server.process.pid)
        else:
            server.start()


def signal_family(pid: int, number: signal.Signals) -> None:
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        for one in (process, *process.children(recursive=True)):
            with suppress(ProcessLookupError):
                os.kill(one.pid, number)


def resume(pid: int) -> None:
    signal_family(pid, signal.SIGCONT)
