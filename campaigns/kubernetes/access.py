"""A namespace for the suite, and a service account in it with only the Role from the docs."""

from __future__ import annotations

import base64
import re
import secrets
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException

if TYPE_CHECKING:
    from collections.abc import Iterator

DOCS = Path(__file__).parents[2] / "docs" / "kubernetes.md"
NAME = "ml-metrics"


@dataclass(frozen=True)
class Access:
    """The credentials of Airflow, and those of the suite itself."""

    namespace: str
    server: str
    authority: str
    token: str
    admin: Any

    def kubeconfig(self) -> dict[str, Any]:
        """Return the kubeconfig of the service account."""
        authority = base64.b64encode(self.authority.encode()).decode()
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": self.server, "certificate-authority-data": authority}}],
            "users": [{"name": "u", "user": {"token": self.token}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": self.namespace}}],
        }

    def write_kubeconfig(self, path: Path, server: str) -> None:
        """Write the kubeconfig of the service account, with the address of a proxy of the cluster."""
        content = {**self.kubeconfig(), "clusters": [{"name": "c", "cluster": {"server": server}}]}
        path.write_text(yaml.safe_dump(content))
        path.chmod(0o600)


def documented_role() -> dict[str, Any]:
    """Return the Role in the docs."""
    (block,) = (one for one in re.findall(r"```yaml\n(.*?)```", DOCS.read_text(), re.DOTALL) if "kind: Role" in one)
    role: dict[str, Any] = yaml.safe_load(block)
    return role


def granted(role: dict[str, Any]) -> set[tuple[str, str]]:
    """Return the pairs of verb and resource that a Role allows."""
    return {(verb, resource) for rule in role["rules"] for resource in rule["resources"] for verb in rule["verbs"]}


@contextmanager
def access(role: dict[str, Any]) -> Iterator[Access]:
    """Create a namespace, an account and its Role on the cluster of KUBECONFIG, and remove them afterwards."""
    admin = config.new_client_from_config()
    core = client.CoreV1Api(admin)
    namespace = f"{NAME}-{secrets.token_hex(4)}"
    core.create_namespace({"metadata": {"name": namespace}})
    try:
        core.create_namespaced_service_account(namespace, {"metadata": {"name": NAME}})
        grant(admin, role, namespace, namespace)
        request = {"spec": {"expirationSeconds": 7200, "audiences": None}}
        token = core.create_namespaced_service_account_token(NAME, namespace, request).status.token
        _await_default_account(core, namespace)
        yield Access(namespace, admin.configuration.host, _authority(admin), token, admin)
    finally:
        core.delete_namespace(namespace)


@contextmanager
def namespace_for_workloads(airflow: Access) -> Iterator[str]:
    """Create a second namespace, without Airflow's Secrets, in which the account of Airflow has its Role."""
    core, name = client.CoreV1Api(airflow.admin), f"{airflow.namespace}-workloads"
    core.create_namespace({"metadata": {"name": name}})
    try:
        grant(airflow.admin, documented_role(), name, airflow.namespace)
        _await_default_account(core, name)
        yield name
    finally:
        core.delete_namespace(name)


def grant(admin: Any, role: dict[str, Any], namespace: str, of_account: str) -> None:
    """Give the account in one namespace a Role in another, or in the same."""
    rbac = client.RbacAuthorizationV1Api(admin)
    rbac.create_namespaced_role(namespace, role)
    binding = {
        "metadata": {"name": NAME},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": NAME},
        "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": of_account}],
    }
    rbac.create_namespaced_role_binding(namespace, binding)


def _authority(admin: Any) -> str:
    return Path(admin.configuration.ssl_ca_cert).read_text()


def _await_default_account(core: client.CoreV1Api, namespace: str) -> None:
    """Wait for the default account, which pods need and the cluster creates with a delay."""
    deadline = time.monotonic() + 30
    while True:
        try:
            core.read_namespaced_service_account("default", namespace)
        except ApiException:
            assert time.monotonic() < deadline, "the cluster made no default service account"
            time.sleep(0.2)
        else:
            return
