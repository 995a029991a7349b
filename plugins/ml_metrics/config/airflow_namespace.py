"""The Kubernetes namespaces of Airflow itself. No workload starts there, unless the policy says so.

Whoever may start a pod in a namespace may give it any Secret and any service account there: beside Airflow these are
every connection, the key that signs documents, and the account that starts pods.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from ml_metrics.airflow_options import airflow_option
from ml_metrics.separate_disks import executors
from ml_metrics.settings import SECTION

OF_THIS_POD = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
"""The file in which a pod finds its own namespace."""


def airflow_namespaces() -> frozenset[str]:
    """Return the namespaces of Airflow, as far as this process knows them; none outside Kubernetes."""
    if given := airflow_option(SECTION, "airflow_namespace"):
        return frozenset(part.strip() for part in given.split(",") if part.strip())
    found = set()
    with suppress(OSError, UnicodeError):
        found.add(OF_THIS_POD.read_text(encoding="ascii").strip())
    if "KubernetesExecutor" in executors():
        found.add(airflow_option("kubernetes_executor", "namespace") or "default")
    return frozenset(found - {""})


def beside_airflow(namespace: str) -> str:
    """Return what is wrong with workloads in a namespace of Airflow, and what to do."""
    return (
        f"workloads would start in {namespace!r}, Airflow's own namespace, where a pod can use Airflow's Secrets and "
        f"service accounts: set another one as `[{SECTION}] namespace`, or allow it with `namespaces` of the policy"
    )
