"""The peak memory of workloads on GKE, from Cloud Monitoring.

GKE samples a container once a minute, and a sample becomes visible up to two minutes later. The peak of a
workload that has just ended is read after that; otherwise it would be missing from some runs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from ml_metrics.config.clusters import cluster_of
from ml_metrics.core.model import WORKLOAD_CONTAINER
from ml_metrics.core.settings import Settings

if TYPE_CHECKING:
    from ml_metrics.config.definition import TestDefinition
    from ml_metrics.core.model import Workload


VISIBLE_AFTER = timedelta(minutes=3)
"""One minute between samples, and two until a sample is visible."""
POD_OF_A_HOST = r"(?:-slice-\d+)?-\d+-[a-z0-9]+"
"""The end of the name of a pod: `<job>-<host>-<random>`, also of a JobSet."""


@dataclass(frozen=True, slots=True)
class MemoryReader:
    """Reads the peak memory of workloads in one cluster."""

    project: str
    location: str | None = None
    cluster: str | None = None
    hosts: int = 1
    """The number of pods of a workload."""
    client: Any = None
    """A `MetricServiceClient`. Default: one with the default credentials."""

    def __call__(self, workload: Workload) -> dict[str, float]:
        """In bytes, by metric. Metrics without samples are missing."""
        if workload.pod is None or workload.started_at is None or workload.ended_at is None:
            return {}
        from ml_metrics.measure.cloud.monitoring import metric_client

        client = self.client or metric_client()
        of_container = "kubernetes.io/container/"
        found = {
            "vm_memory_usage_bytes": self._peak(client, workload, f"{of_container}memory/used_bytes"),
            "gpu_memory_usage_bytes": self._peak(client, workload, f"{of_container}accelerator/memory_used"),
        }
        return {name: value for name, value in found.items() if value is not None}

    def _peak(self, client: Any, workload: Workload, metric: str) -> float | None:
        """Return the peak without page cache: "evictable" memory, which the program does not need."""
        from google.cloud import monitoring_v3

        pod = workload.pod or ""
        host = re.fullmatch(f"(?P<job>.+?){POD_OF_A_HOST}", pod) if self.hosts > 1 else None
        labels = {
            "namespace_name": workload.namespace,
            "container_name": WORKLOAD_CONTAINER,
            "location": self.location,
            "cluster_name": self.cluster,
            "pod_name": None if host else pod,
        }
        terms = [
            f"metric.type = {_quoted(metric)}",
            'resource.type = "k8s_container"',
            *(f"resource.labels.{name} = {_quoted(value)}" for name, value in labels.items() if value),
            *([f"resource.labels.pod_name = starts_with({_quoted(host['job'] + '-')})"] if host else []),
        ]
        every = client.list_time_series(
            request={
                "name": f"projects/{self.project}",
                "filter": " AND ".join(terms),
                "interval": monitoring_v3.TimeInterval(start_time=workload.started_at, end_time=workload.ended_at),
                "view": monitoring_v3.ListTimeSeriesRequest.TimeSeriesView.FULL,
            },
            timeout=30.0,  # per page
        )
        pods = re.compile(re.escape(host["job"]) + POD_OF_A_HOST if host else re.escape(pod))
        values = [
            float(point.value.int64_value or point.value.double_value)
            for series in every
            if pods.fullmatch(series.resource.labels["pod_name"])
            if series.metric.labels.get("memory_type") != "evictable"
            for point in series.points
        ]
        return max(values, default=None)


def visible_at(test: TestDefinition, workload: Workload | None, now: datetime) -> datetime | None:
    """Return when the last sample of a workload will be visible; None if it is by now, or if none is read.

    A workload that ended in the future did so by the clock of another machine.
    """
    if not test.metric_collection_config.sources.memory or workload is None or memory_reader(test) is None:
        return None
    if workload.peak_memory_bytes or workload.started_at is None or workload.ended_at is None:
        return None
    if workload.ended_at + VISIBLE_AFTER <= now:
        return None
    return min(workload.ended_at, now) + VISIBLE_AFTER


def memory_reader(test: TestDefinition) -> MemoryReader | None:
    """None unless the test or the settings configure GKE."""
    cluster = cluster_of(test)
    if cluster is not None and cluster.project is not None:
        return MemoryReader(cluster.project, cluster.location, cluster.name, test.pods)
    project = Settings.load().monitoring_project
    return MemoryReader(project, hosts=test.pods) if project else None


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
