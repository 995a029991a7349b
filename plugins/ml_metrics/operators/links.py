"""Links to a workload, and the command that downloads its logs."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

if TYPE_CHECKING:
    from ml_metrics.config.clusters import ClusterAccess
    from ml_metrics.model import Workload

CONSOLE = "https://console.cloud.google.com"


def workload_link(cluster: ClusterAccess | None, namespace: str | None, kind: str, name: str | None) -> str | None:
    """Return the page of a pod or Job in the Google Cloud console; None for other clusters."""
    if cluster is None or not cluster.on_gke or namespace is None or name is None:
        return None
    place = "/".join(quote(str(part), safe="") for part in (cluster.location, cluster.name, namespace, name))
    return f"{CONSOLE}/kubernetes/{kind}/{place}/details?{urlencode({'project': cluster.project})}"


def logs_command(cluster: ClusterAccess | None, workload: Workload, task_page: str) -> str:
    """Return the command that downloads the logs from Cloud Logging or Airflow, where they outlive the pod."""
    if cluster is None or workload.pod is None:
        return f'curl -fsS -H "Authorization: Bearer $AIRFLOW_TOKEN" {shlex.quote(_rest_address(task_page))}'
    terms = {
        "resource.type": "k8s_container",
        "resource.labels.project_id": cluster.project,
        "resource.labels.location": cluster.location,
        "resource.labels.cluster_name": cluster.name,
        "resource.labels.namespace_name": workload.namespace or "default",
        "resource.labels.pod_name": workload.pod,
    }
    query = " AND ".join(f'{name}="{value}"' for name, value in terms.items())
    since = "" if workload.queued_at is None else f' AND timestamp>="{workload.queued_at.isoformat()}"'
    return (
        f"gcloud logging read {shlex.quote(query + since)} --project={shlex.quote(str(cluster.project))} "
        "--order=asc --format='value(textPayload)'"
    )


def _rest_address(task_page: str) -> str:
    """Return the address of the log in Airflow's REST API for the page of a task in its UI."""
    page, _, query = task_page.partition("?")
    base, _, rest = page.partition("/dags/")
    dag, _, rest = rest.partition("/runs/")
    run, _, task = rest.partition("/tasks/")
    attempt = dict(part.partition("=")[::2] for part in query.split("&")).get("try_number", "1")
    return f"{base}/api/v2/dags/{dag}/dagRuns/{run}/taskInstances/{task}/logs/{attempt}?full_content=true"
