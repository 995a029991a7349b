"""Checks a cluster before any test runs there: Airflow's account, its permissions, and the nodes.

The connection is that of the operators, so the check applies to runs.
"""

from __future__ import annotations

import json
import time
import warnings
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kubernetes import client
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import InsecureRequestWarning

from ml_metrics.airflow.clusters.permissions import NOT_FOUND, PERMISSIONS, Access, Permission
from ml_metrics.airflow.connections import library_errors_as, uses_local_cluster
from ml_metrics.airflow.operators.chosen_operator import operator_class
from ml_metrics.airflow.operators.run import RUN_KEY
from ml_metrics.config.clusters import cluster_of
from ml_metrics.config.definition import TestDefinition
from ml_metrics.config.pod import METRIC_CONFIG
from ml_metrics.core.deadline import TookTooLongError, in_time
from ml_metrics.core.errors import ClusterError
from ml_metrics.core.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterable


POOL = "cloud.google.com/gke-nodepool"
MACHINE = "node.kubernetes.io/instance-type"
ACCELERATORS = ("cloud.google.com/gke-tpu-accelerator", "cloud.google.com/gke-accelerator", "nvidia.com/gpu.product")
TOPOLOGY = "cloud.google.com/gke-tpu-topology"
DEVICES = ("google.com/tpu", "nvidia.com/gpu", "amd.com/gpu")


@dataclass(frozen=True, slots=True, order=True)
class NodePool:
    """Nodes that are alike."""

    name: str
    machine: str
    accelerator: str
    """With its topology, if any; empty without accelerators."""
    devices: int
    """The accelerators of one node that pods can use."""
    nodes: int = 0
    ready: int = 0


def node_pools(nodes: Iterable[dict[str, Any]]) -> list[NodePool]:
    found: dict[NodePool, list[bool]] = defaultdict(list)
    for node in nodes:
        labels = _mapping(_mapping(node, "metadata"), "labels")
        allocatable = _mapping(_mapping(node, "status"), "allocatable")
        accelerator = next((str(labels[key]) for key in ACCELERATORS if labels.get(key)), "")
        pool = NodePool(
            str(labels.get(POOL, "-")),
            str(labels.get(MACHINE, "-")),
            " ".join(filter(None, (accelerator, str(labels.get(TOPOLOGY, ""))))),
            sum(_number(allocatable.get(device)) for device in DEVICES),
        )
        conditions = _mapping(node, "status").get("conditions") or []
        ready = any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)
        found[pool].append(ready and not _mapping(node, "spec").get("unschedulable"))
    return sorted(
        NodePool(pool.name, pool.machine, pool.accelerator, pool.devices, len(ready), sum(ready))
        for pool, ready in found.items()
    )


def _mapping(value: dict[str, Any], key: str) -> dict[str, Any]:
    return value.get(key) or {}


def _number(value: Any) -> int:
    text = str(value)
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0


NODES_PER_PAGE = 500
MAX_NODES = 5_000
UNAUTHORIZED, FORBIDDEN = 401, 403


@dataclass(frozen=True, slots=True)
class ClusterCheck:
    """What a cluster answered."""

    server: str
    namespace: str
    version: str
    user: str | None
    """None from a cluster older than Kubernetes 1.28, which cannot tell."""
    groups: tuple[str, ...]
    missing: tuple[Permission, ...] | None
    """The permissions of the Role in docs/kubernetes.md that Airflow lacks; None if the cluster has no permissions."""
    pools: tuple[NodePool, ...] | None
    """None if Airflow may not list nodes, which no test needs."""
    beside_airflow: tuple[str, ...]
    """The Jobs and CronJobs of tests that no run of Airflow has started: nothing collects them."""
    faults: str = ""
    """Which planned faults are not possible, and why; empty if the cluster has no permissions."""


def namespace_by_connection(test: TestDefinition) -> str | None:
    """Return the namespace in which a test starts that names none; None on the local cluster and on GKE."""
    cluster = cluster_of(test)
    if (cluster is None and uses_local_cluster(Settings.load())) or (cluster is not None and cluster.on_gke):
        return None
    operator: Any = operator_class(test)(test=test, task_id="run_workload")
    operator.use_cluster()
    return str(operator.own_namespace)


def check_cluster(name: str | None, namespace: str | None, seconds: float) -> ClusterCheck:
    """Check a cluster of the settings by its name; None is the cluster of tests that name none.

    Raises ConfigError if the settings have no such cluster, ClusterError if it refused, or did not answer in time.
    """
    content = {"name": "cluster-check", "image": "none", "command": ["true"], "cluster": name, "namespace": namespace}
    test = TestDefinition.model_validate({key: value for key, value in content.items() if value is not None})
    deadline = time.monotonic() + seconds
    try:
        # no timeout of a socket bounds the whole of credentials, redirects, retries and slow answers
        return in_time(lambda: _answer(test, deadline), seconds, "the cluster")
    except TookTooLongError:
        raise ClusterError(f"no answer within {seconds:g} seconds: is its address reachable from here?") from None


def _answer(test: TestDefinition, deadline: float) -> ClusterCheck:
    warnings.simplefilter("once", InsecureRequestWarning)  # a kubeconfig may ask for that: one warning is enough
    with library_errors_as(ClusterError):
        # not the placeholder that another task has for it: the DAG `ml-metrics-doctor` asks in a task of its own
        operator: Any = operator_class(test)(test=test, task_id="run_workload")
        try:
            operator.use_cluster()
            return _Asking(operator.client.api_client, operator.own_namespace, deadline).check()
        except ApiException as error:  # in one line, without headers and bodies
            refused = "the credentials are not accepted: " if error.status == UNAUTHORIZED else ""
            raise ClusterError(f"{refused}HTTP {error.status} {error.reason}") from error


class _Asking(Access):
    def check(self) -> ClusterCheck:
        server, version = self.api.configuration.host, self._version()
        user, groups = self._user()
        missing, pools = self._missing(), self._pools()
        faults = "" if missing is None else self.refused_faults()
        return ClusterCheck(server, self.namespace, version, user, groups, missing, pools, self._beside(), faults)

    def _version(self) -> str:
        """Return the version, read without the client's model: other servers than Kubernetes' own leave parts out."""
        answer = json.loads(self.ask(client.VersionApi(self.api).get_code, _preload_content=False).data)
        return str(answer.get("gitVersion", "?")) if isinstance(answer, dict) else "?"

    def _beside(self) -> tuple[str, ...]:
        list_jobs = client.BatchV1Api(self.api).list_namespaced_job
        try:
            answer = self.ask(
                list_jobs, self.namespace, label_selector=f"!{RUN_KEY}", limit=500, _preload_content=False
            )
        except ApiException as error:
            if error.status not in {FORBIDDEN, NOT_FOUND}:
                raise
            return ()
        made_by = []
        for job in json.loads(answer.data).get("items") or ():
            about = _mapping(job, "metadata")
            if "ml-metrics/test" not in _mapping(about, "labels") and METRIC_CONFIG not in str(job):
                continue
            owner = next(iter(about.get("ownerReferences") or ()), {"kind": "Job", "name": about.get("name")})
            if owner["kind"] != "JobSet":  # whose Jobs do not say who has started it
                made_by.append(f"{owner['kind']} {owner['name']}")
        return tuple(sorted(set(made_by)))

    def _user(self) -> tuple[str | None, tuple[str, ...]]:
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        try:
            review = self.ask(client.AuthenticationV1Api(self.api).create_self_subject_review, body)
        except ApiException as error:
            if error.status not in {FORBIDDEN, NOT_FOUND}:
                raise
            return None, ()
        info = review.status.user_info
        return info.username, tuple(info.groups or ())

    def _missing(self) -> tuple[Permission, ...] | None:
        try:
            return tuple(one for one in PERMISSIONS if not self.allowed(one))
        except ApiException as error:
            if error.status != NOT_FOUND:
                raise
            return None

    def _pools(self) -> tuple[NodePool, ...] | None:
        nodes: list[dict[str, Any]] = []
        following = None
        while len(nodes) < MAX_NODES:
            options = {"limit": NODES_PER_PAGE, **({"_continue": following} if following else {})}
            try:
                page = self.ask(client.CoreV1Api(self.api).list_node, **options)
            except ApiException as error:
                if error.status not in {FORBIDDEN, NOT_FOUND}:
                    raise
                return None
            nodes += self.api.sanitize_for_serialization(page)["items"]
            following = page.metadata._continue  # noqa: SLF001  (the name of the field in Kubernetes' client)
            if not following:
                break
        return tuple(node_pools(nodes))
