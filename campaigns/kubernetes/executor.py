"""An Airflow with KubernetesExecutor: scheduler, triggerer, API server and DAG processor here, each task in a pod.

The cluster policy of docs/kubernetes.md gives one test the CeleryExecutor: a Celery worker here runs its tasks.

Users give their worker pods an image with Airflow and the package. The node of this cluster has no registry, but it is
this machine: its pods mount the environment, the checkout and the deployed files, read-only, and share its network, so
that they reach Airflow, the database, the bucket and the API server of the cluster on loopback. Nothing else is shared:
run folders are in the bucket, and settings come from the Secret that `deploy/kubernetes-worker.yaml` names.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from uuid import uuid4

import yaml
from kubernetes import client
from kubernetes.client.exceptions import ApiException

from airflow_home import BIN, PROJECT, Home
from campaigns.kubernetes.access import namespace_for_workloads
from campaigns.kubernetes.cluster import IMAGE
from campaigns.machines.deployment import Api
from campaigns.messages.mail_servers import Ledger, MailServer, smtp_connection
from campaigns.processes import settings_of_processes
from missing import missing
from ml_metrics.core.model import Run
from ml_metrics.store.run_folder import RunFolder
from ml_metrics.warehouse import open_warehouse
from servers.gcs import BUCKET, GcsServer
from servers.ports import free_port
from servers.postgres import start_postgres
from servers.redis import RedisServer
from standalone_airflow import is_up, stop, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from campaigns.kubernetes.access import Access
    from ml_metrics.core.model import Workload
    from ml_metrics.warehouse import Warehouse

TEMPLATE = PROJECT / "deploy" / "kubernetes-worker.yaml"
PAGE = PROJECT / "docs" / "kubernetes.md"
SECRET = "ml-metrics-airflow"
PROCESSES = (
    "api-server --workers 1",
    "celery worker --skip-serve-logs --concurrency 2",
    "dag-processor",
    "scheduler --skip-serve-logs",
    "triggerer --skip-serve-logs",
)
WITH_CELERY = "hello-cpu"
"""The test of the policy, whose tasks run in the Celery worker."""
HEARTBEAT_SECONDS = 30
"""After how long without a heartbeat a worker is lost."""
START_SECONDS = 240
DEPLOYMENT = "in-pods"
DOCTOR = "ml-metrics-doctor"
DOCTORS_FILE = f"""# an Airflow DAG
from ml_metrics.airflow.product_dags import product_dag

doctor = product_dag({DOCTOR!r})
"""
KEPT = ("PATH", "LANG", "HOME", "USER", "LOGNAME", "VIRTUAL_ENV", "PYTHONPATH")


@dataclass(frozen=True)
class Deployment:
    """A running Airflow, and what its tests need to look at."""

    api: Api
    access: Access
    workloads_namespace: str
    mail: MailServer
    cloud: dict[str, str]
    """The variables with which a process finds the bucket."""
    folder: Path
    root: str
    warehouse_address: str

    @property
    def core(self) -> client.CoreV1Api:
        return client.CoreV1Api(self.access.admin)

    def start(self, test: str) -> Run:
        """Start a run."""
        self.api.unpause(test)
        return Run(test, test, self.api.trigger(test), DEPLOYMENT)

    def workload(self, run: Run) -> Workload:
        folder = RunFolder.of(run, f"{self.root}/runs")
        found = RunFolder(folder.path, believe_unsigned=True).read_workload()
        assert found is not None, f"{folder.path} has no end of the workload"
        return found

    def messages(self, run: Run) -> list[str]:
        """Return the keys of the messages about a run that the mail server has taken, in their order."""
        return [one.key for one in self.mail.ledger.taken if one.key.startswith(run.key)]

    @contextmanager
    def warehouse(self) -> Iterator[Warehouse]:
        with open_warehouse(self.warehouse_address, deployment=DEPLOYMENT) as opened:
            yield opened

    def workers(self, test: str, task: str = "") -> list[client.V1Pod]:
        """Return the pods of a test's tasks, also those that have ended."""
        label = f"kubernetes_executor=True,dag_id={test}{f',task_id={task}' if task else ''}"
        return list(self.core.list_namespaced_pod(self.access.namespace, label_selector=label).items)

    def workloads(self, test: str) -> list[str]:
        """Return the pods of a test's workloads that are in the cluster."""
        label = f"ml-metrics/test={test}"
        found = self.core.list_namespaced_pod(self.workloads_namespace, label_selector=label).items
        return [one.metadata.name for one in found if one.metadata.deletion_timestamp is None]

    def change_settings(self, **more: str) -> None:
        """Change the settings of worker pods that start from now on."""
        body = {"stringData": {name.upper(): value for name, value in more.items()}}
        self.core.patch_namespaced_secret(SECRET, self.access.namespace, body)


@contextmanager
def airflow_in_pods(folder: Path, access: Access, tests: Mapping[str, Mapping[str, Any]]) -> Iterator[Deployment]:
    """Start an Airflow with these tests, whose tasks are pods with the service account of the docs."""
    check_node(access)
    with ExitStack() as stack:
        workloads = stack.enter_context(namespace_for_workloads(access))
        postgres = start_postgres()
        stack.callback(postgres.stop)
        redis = RedisServer()
        stack.callback(redis.stop)
        gcs, mail = GcsServer(), MailServer(Ledger())
        for server in (gcs, mail):
            stack.callback(server.stop)
        for name in ("deployed/metric_configs", "deployed/dags", "airflow/config", "shared"):
            (folder / name).mkdir(parents=True)
        (folder / "shared").chmod(0o777)
        shutil.copy(PROJECT / "dags" / "ml_tests.py", folder / "deployed" / "dags")
        (folder / "deployed" / "dags" / "doctor.py").write_text(DOCTORS_FILE)
        (folder / "airflow" / "config" / "airflow_local_settings.py").write_text(policy_of_the_docs())
        database, warehouse = postgres.new_database(), postgres.new_database()
        root, url = f"gs://{BUCKET}/{uuid4()}", f"http://127.0.0.1:{free_port()}"
        settings = {
            **gcs.environment,
            **settings_of_processes(url, database, redis.url),
            "AIRFLOW__CORE__DEFAULT_TASK_RETRY_DELAY": "1",
            "AIRFLOW__CORE__EXECUTOR": "KubernetesExecutor,CeleryExecutor",
            "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": str(HEARTBEAT_SECONDS),
            **product_settings(folder, root, warehouse),
            "AIRFLOW__ML_METRICS__NAMESPACE": workloads,
            "AIRFLOW_CONN_SMTP_DEFAULT": json.dumps(smtp_connection(mail.port)),
            **service_account(access),
        }
        secret = {"metadata": {"name": SECRET}, "stringData": settings}
        client.CoreV1Api(access.admin).create_namespaced_secret(access.namespace, secret)
        add_tests(folder, tests, gcs.environment)
        (folder / "worker.yaml").write_text(yaml.safe_dump(worker(folder)))
        environment = {**on_this_machine(folder), **settings, **scheduler_settings(folder, access)}
        migrated = subprocess.run(
            ["airflow", "db", "migrate"], env=environment, capture_output=True, text=True, check=False, timeout=300
        )
        assert migrated.returncode == 0, migrated.stderr[-3000:]
        processes: list[subprocess.Popen[bytes]] = []
        stack.callback(stop_all, processes)
        processes.extend(start(folder, one, environment) for one in PROCESSES)
        wait_until(lambda: is_up(url), "the API server answers", START_SECONDS)
        api = Api(url, Home(folder / "airflow"), processes[0])
        stack.callback(api.client.close)
        stack.callback(keep_logs, folder, access)
        yield Deployment(api, access, workloads, mail, gcs.environment, folder, root, warehouse)


def check_node(access: Access) -> None:
    """Skip on a cluster whose nodes cannot mount this machine's folders: they are other machines."""
    nodes = client.CoreV1Api(access.admin).list_node().items
    here = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    if {one.status.node_info.boot_id for one in nodes} != {here}:
        missing("KubernetesExecutor's worker pods mount folders of this machine, and the cluster has other nodes")


def add_tests(folder: Path, tests: Mapping[str, Mapping[str, Any]], cloud: Mapping[str, str]) -> None:
    """Write the test files. The pods of workloads mount what worker pods do, in place of an image of their own."""
    folders = [str(folder / "shared"), str(PROJECT), sys.base_prefix]
    for name, content in tests.items():
        test = {
            "name": name,
            "image": IMAGE,
            "owner": "a-new-user",
            "emails": ["a@example.com"],
            "timeout": "10m",
            "startup_timeout": "5m",
            "env": cloud,
            "volumes": {path: {"host_path": path} for path in folders},
            "pod": {"spec": {"hostNetwork": True}},
            **content,
        }
        (folder / "deployed" / "metric_configs" / f"{name}.yaml").write_text(json.dumps(test))
    policy = {"host_paths": folders, "host_network": True}
    (folder / "deployed" / "policy.yaml").write_text(json.dumps(policy))


def policy_of_the_docs() -> str:
    """Return the cluster policy, which names the second executor of a list: here that is the CeleryExecutor."""
    (policy,) = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert policy.count("KubernetesExecutor") == 1
    return str(policy).replace("KubernetesExecutor", "CeleryExecutor")


def on_this_machine(folder: Path) -> dict[str, str]:
    """Return the variables of processes on this machine that no setting is."""
    own = {name: os.environ[name] for name in KEPT if name in os.environ}
    path = f"{BIN}:{os.environ['PATH']}"
    return {**own, "PATH": path, "PYTHONWARNINGS": "", "AIRFLOW_HOME": str(folder / "airflow")}


def product_settings(folder: Path, root: str, warehouse: str) -> dict[str, str]:
    deployed = folder / "deployed"
    return {
        "AIRFLOW__CORE__DAGS_FOLDER": str(deployed / "dags"),
        "AIRFLOW__ML_METRICS__CHANNELS": "smtp",
        "AIRFLOW__ML_METRICS__CLUSTER": "kubernetes",
        "AIRFLOW__ML_METRICS__CONFIG_ROOT": str(deployed / "metric_configs"),
        "AIRFLOW__ML_METRICS__DEPLOYMENT": DEPLOYMENT,
        "AIRFLOW__ML_METRICS__POLICY": str(deployed / "policy.yaml"),
        "AIRFLOW__ML_METRICS__STORAGE_ROOT": f"{root}/runs",
        "AIRFLOW_CONN_ML_METRICS_WAREHOUSE": warehouse.replace("postgresql+psycopg", "postgres"),
    }


def service_account(access: Access) -> dict[str, str]:
    """Return what lets pods use the cluster as its own pods, at an address that needs none of its proxies."""
    server = urlsplit(access.server)
    return {
        "AIRFLOW_CONN_KUBERNETES_DEFAULT": json.dumps({"conn_type": "kubernetes", "extra": {"in_cluster": True}}),
        "KUBERNETES_SERVICE_HOST": str(server.hostname),
        "KUBERNETES_SERVICE_PORT": str(server.port),
    }


def scheduler_settings(folder: Path, access: Access) -> dict[str, str]:
    """Return what only the processes on this machine get, which are in no pod: how they reach the cluster."""
    extra = {"kube_config": json.dumps(access.kubeconfig())}
    return {
        "AIRFLOW__KUBERNETES_EXECUTOR__CONFIG_FILE": os.environ["KUBECONFIG"],
        "AIRFLOW__KUBERNETES_EXECUTOR__DELETE_WORKER_PODS": "False",
        "AIRFLOW__KUBERNETES_EXECUTOR__IN_CLUSTER": "False",
        "AIRFLOW__KUBERNETES_EXECUTOR__NAMESPACE": access.namespace,
        "AIRFLOW__KUBERNETES_EXECUTOR__POD_TEMPLATE_FILE": str(folder / "worker.yaml"),
        "AIRFLOW_CONN_KUBERNETES_DEFAULT": json.dumps({"conn_type": "kubernetes", "extra": extra}),
    }


def worker(folder: Path) -> dict[str, Any]:
    """Return the template of deploy/, with this machine's environment and network in place of Airflow's image."""
    template: dict[str, Any] = yaml.safe_load(TEMPLATE.read_text())
    spec, (base,) = template["spec"], template["spec"]["containers"]
    assert base["envFrom"] == [{"secretRef": {"name": SECRET}}]
    spec["hostNetwork"] = True
    # the folders of this machine belong to the user of the tests, and its two cores to all pods
    del spec["securityContext"], base["resources"]
    mounted = {"project": PROJECT, "python": sys.base_prefix, "deployed": folder / "deployed"}
    spec["volumes"] = [{"name": name, "hostPath": {"path": str(path)}} for name, path in mounted.items()]
    spec["volumes"].append({"name": "home", "emptyDir": {}})
    base["image"] = IMAGE
    base["volumeMounts"] = [
        {"name": name, "mountPath": str(path), "readOnly": True} for name, path in mounted.items()
    ] + [{"name": "home", "mountPath": "/airflow"}]
    own = {"AIRFLOW_HOME": "/airflow", "HOME": "/airflow", "PATH": f"{BIN}:/usr/bin:/bin", "PYTHONWARNINGS": ""}
    base["env"] = [{"name": name, "value": value} for name, value in own.items()]
    return template


def keep_logs(folder: Path, access: Access) -> None:
    """Write the log of each worker pod to a file: they go with the namespace."""
    core = client.CoreV1Api(access.admin)
    for pod in core.list_namespaced_pod(access.namespace).items:
        with suppress(ApiException):
            log = core.read_namespaced_pod_log(pod.metadata.name, access.namespace, container="base")
            (folder / f"{pod.metadata.name}.log").write_text(log)


def start(folder: Path, command: str, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    """Start a process of Airflow."""
    with (folder / f"{command.split(maxsplit=1)[0]}.log").open("wb") as log:
        return subprocess.Popen(
            ["airflow", *command.split()], env=environment, cwd=PROJECT, stdout=log, stderr=log, start_new_session=True
        )


def stop_all(processes: list[subprocess.Popen[bytes]]) -> None:
    """Stop them at the same time: the scheduler waits for its watcher of pods for 20 seconds."""
    with ThreadPoolExecutor() as threads:
        list(threads.map(stop, processes))
