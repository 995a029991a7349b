"""An Airflow with KubernetesExecutor: its processes on this machine, each task in a pod of the cluster.

The image of the cluster has nothing but Python, so the pods mount this machine's environment, and share its network:
a node without Airflow's image, and a cluster without services, are enough.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import yaml
from kubernetes import client

from airflow_home import PROJECT, Home
from campaigns.kubernetes.cluster import IMAGE
from servers.ports import free_port
from servers.postgres import start_postgres
from standalone_airflow import Standalone, is_up, stop, token_of, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from campaigns.kubernetes.access import Access

TEMPLATE = PROJECT / "deploy" / "kubernetes-worker.yaml"
PROCESSES = ("dag-processor", "scheduler --skip-serve-logs", "triggerer --skip-serve-logs")
HEARTBEAT_SECONDS = 30
"""After how long without a heartbeat a worker is lost."""


@contextmanager
def airflow_in_pods(home: Home, access: Access) -> Iterator[tuple[Standalone, dict[str, str]]]:
    """Start an Airflow whose tasks are pods with the service account of the docs. Yield it with its settings."""
    with ExitStack() as stack:
        postgres = start_postgres()
        stack.callback(postgres.stop)
        port = free_port()
        url = f"http://127.0.0.1:{port}"
        kubeconfig, template = home.path / "kubeconfig", home.path / "worker.yaml"
        write_kubeconfig(access, kubeconfig)
        template.write_text(yaml.safe_dump(worker(home)))
        database = postgres.new_database()
        settings = {
            "AIRFLOW__API__PORT": str(port),
            "AIRFLOW__CORE__EXECUTOR": "KubernetesExecutor",
            "AIRFLOW__CORE__DEFAULT_TASK_RETRY_DELAY": "1",
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{url}/execution/",
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": database,
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_ASYNC": database,
            "AIRFLOW__KUBERNETES_EXECUTOR__CONFIG_FILE": os.environ["KUBECONFIG"],
            "AIRFLOW__KUBERNETES_EXECUTOR__IN_CLUSTER": "False",
            "AIRFLOW__KUBERNETES_EXECUTOR__NAMESPACE": access.namespace,
            "AIRFLOW__KUBERNETES_EXECUTOR__POD_TEMPLATE_FILE": str(template),
            "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": str(HEARTBEAT_SECONDS),
            "AIRFLOW__ML_METRICS__CLUSTER": "kubernetes",
            "AIRFLOW__ML_METRICS__POLICY": str(policy(home)),
            "AIRFLOW__ML_METRICS__SHARED_DISK": "yes",
            "AIRFLOW_CONN_KUBERNETES_DEFAULT": connection(kubeconfig, access.namespace),
            "AIRFLOW_CONN_ML_METRICS_WAREHOUSE": postgres.new_database().replace("postgresql+psycopg", "postgres"),
        }
        share_settings(home, access, settings)
        environment = {**home.environment, **settings}
        subprocess.run(["airflow", "db", "migrate"], env=environment, capture_output=True, check=True, timeout=300)
        stack.enter_context(running(home, "api-server", environment))
        wait_until(lambda: is_up(url), "the API server answers")
        for process in PROCESSES:
            stack.enter_context(running(home, process, environment))
        made = Standalone(url, token_of(home, url), process=None)  # type: ignore[arg-type]
        stack.callback(made.client.close)
        yield made, settings


def worker(home: Home) -> dict[str, Any]:
    """Return the template of the docs, with this machine's environment in place of Airflow's image."""
    template: dict[str, Any] = yaml.safe_load(TEMPLATE.read_text())
    spec, (base,) = template["spec"], template["spec"]["containers"]
    spec["hostNetwork"] = True
    del (
        spec["securityContext"],
        base["resources"],
    )  # the tests' user owns the folders of this machine, and CPU is scarce
    base["image"] = IMAGE
    mount(spec, base, home)
    return template


def mount(spec: dict[str, Any], container: dict[str, Any], home: Home) -> None:
    """Mount the project, the interpreter and Airflow's home where they are on this machine."""
    folders = {"project": PROJECT, "python": sys.base_prefix, "home": home.path}
    spec["volumes"] = [{"name": name, "hostPath": {"path": str(path)}} for name, path in folders.items()]
    container["volumeMounts"] = [{"name": name, "mountPath": str(path)} for name, path in folders.items()]


def share_settings(home: Home, access: Access, settings: dict[str, str], **more: str) -> None:
    """Write the Secret with the environment of Airflow's processes, which new worker pods read."""
    own = {name: value for name, value in home.environment.items() if name.startswith("AIRFLOW") or name == "PATH"}
    core, name = client.CoreV1Api(access.admin), "ml-metrics-airflow"
    content = {**own, **settings, "HOME": str(home.path), **more}
    body = {"metadata": {"name": name}, "stringData": content}
    found = core.list_namespaced_secret(access.namespace, field_selector=f"metadata.name={name}").items
    if found:
        core.patch_namespaced_secret(name, access.namespace, body)
    else:
        core.create_namespaced_secret(access.namespace, body)


def policy(home: Home) -> Path:
    """Write the policy that lets pods mount this machine's folders, and return its path."""
    path = home.path / "policy.yaml"
    path.write_text(json.dumps({"host_paths": [str(home.runs), str(PROJECT), sys.base_prefix]}))
    return path


def write_kubeconfig(access: Access, path: Path) -> None:
    """Write the kubeconfig of the account of the docs, with which tasks start the pods of workloads."""
    access.write_kubeconfig(path, access.server)
    content = yaml.safe_load(path.read_text())
    authority = base64.b64encode(access.authority.encode()).decode()
    content["clusters"][0]["cluster"]["certificate-authority-data"] = authority
    path.write_text(yaml.safe_dump(content))


def connection(kubeconfig: Path, namespace: str) -> str:
    extra = {"kube_config_path": str(kubeconfig), "namespace": namespace}
    return json.dumps({"conn_type": "kubernetes", "extra": extra})


@contextmanager
def running(home: Home, command: str, environment: dict[str, str]) -> Iterator[None]:
    """Run one process of Airflow for a while."""
    with (home.path / f"{command.split(maxsplit=1)[0]}.log").open("wb") as log:
        process = subprocess.Popen(
            ["airflow", *command.split()], env=environment, cwd=PROJECT, stdout=log, stderr=log, start_new_session=True
        )
        try:
            yield
        finally:
            stop(process)
