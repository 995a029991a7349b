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
    from collections.abc import Iterator

    from ml_metrics.config.definition import TestDefinition
    from ml_metrics.core.model import Workload


MEMORY = "kubernetes.io/container/memory/used_bytes"
ACCELERATOR_MEMORY = "kubernetes.io/container/accelerator/memory_used"
VISIBLE_AFTER = timedelta(minutes=3)
"""One minute between samples, and two until a sample is visible."""
TIMEOUT_SECONDS = 30.0
"""Per page."""

_POD_OF_A_HOST = re.compile(r"(?P<job>.+?)(?:-slice-\d+)?-\d+-[a-z0-9]+")


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
        found = {
            "vm_memory_usage_bytes": self._peak(client, workload, MEMORY),
            "gpu_memory_usage_bytes": self._peak(client, workload, ACCELERATOR_MEMORY),
        }
        return {name: value for name, value in found.items() if value is not None}

    def _peak(self, client: Any, workload: Workload, metric: str) -> float | None:
        """Return the peak without page cache: "evictable" memory, which the program does not need."""
        values = [
            _value(point)
            for series in self._series(client, workload, metric)
            if series.metric.labels.get("memory_type") != "evictable"
            for point in series.points
        ]
        return max(values, default=None)

    def _series(self, client: Any, workload: Workload, metric: str) -> Iterator[Any]:
        from google.cloud import monitoring_v3

        found = client.list_time_series(
            request={
                "name": f"projects/{self.project}",
                "filter": self._filter(workload, metric),
                "interval": monitoring_v3.TimeInterval(start_time=workload.started_at, end_time=workload.ended_at),
                "view": monitoring_v3.ListTimeSeriesRequest.TimeSeriesView.FULL,
            },
            timeout=TIMEOUT_SECONDS,
        )
        pods = self._pods(workload)
        return (series for series in found if pods.fullmatch(series.resource.labels["pod_name"]))

    def _filter(self, workload: Workload, metric: str) -> str:
        job = self._job(workload)
        labels = {
            "namespace_name": workload.namespace,
            "container_name": WORKLOAD_CONTAINER,
            "location": self.location,
            "cluster_name": self.cluster,
            "pod_name": None if job else workload.pod,
        }
        terms = [
            f"metric.type = {_quoted(metric)}",
            'resource.type = "k8s_container"',
            *(f"resource.labels.{name} = {_quoted(value)}" for name, value in labels.items() if value),
            *([f"resource.labels.pod_name = starts_with({_quoted(job + '-')})"] if job else []),
        ]
        return " AND ".join(terms)

    def _pods(self, workload: Workload) -> re.Pattern[str]:
        """Return the pattern of the pod names of the workload: `<job>-<host>-<random>`, also of a JobSet."""
        job = self._job(workload)
        return re.compile(re.escape(job) + r"(?:-slice-\d+)?-\d+-[a-z0-9]+" if job else re.escape(workload.pod or ""))

    def _job(self, workload: Workload) -> str:
        match = _POD_OF_A_HOST.fullmatch(workload.pod or "") if self.hosts > 1 else None
        return match["job"] if match else ""


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


def _value(point: Any) -> float:
    return float(point.value.int64_value or point.value.double_value)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
