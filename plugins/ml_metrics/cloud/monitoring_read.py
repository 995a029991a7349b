"""Reading Cloud Monitoring: the most memory that a workload on GKE used.

GKE samples a container once a minute, and a sample may be seen two minutes later. So the reader first waits until the
last sample of a workload that has just ended can be seen; else the peak would be missing from some runs and not from
others.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from ml_metrics.cloud.cloud_monitoring import metric_client
from ml_metrics.model import WORKLOAD_CONTAINER
from ml_metrics.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ml_metrics.config.definition import TestDefinition
    from ml_metrics.model import Workload

MEMORY = "kubernetes.io/container/memory/used_bytes"
ACCELERATOR_MEMORY = "kubernetes.io/container/accelerator/memory_used"
SEEN_AFTER = timedelta(minutes=3)
"""A minute between two samples, and two until a sample can be seen."""
TIMEOUT = 30.0
"""Seconds that one page of an answer may take."""

_POD_OF_A_HOST = re.compile(r"(?P<job>.+)-\d+-[a-z0-9]+")


@dataclass(frozen=True, slots=True)
class MemoryReader:
    """Asks for the memory of workloads in one cluster."""

    project: str
    location: str | None = None
    cluster: str | None = None
    hosts: int = 1
    """How many pods a workload has."""
    client: Any = None
    """A `MetricServiceClient`; one with the default credentials if None."""
    wait: Callable[[float], None] = field(default=time.sleep)

    def __call__(self, workload: Workload) -> dict[str, float]:
        """The greatest values while the workload ran, in bytes. What was not measured is not in it."""
        if workload.pod is None or workload.started_at is None or workload.ended_at is None:
            return {}
        visible_in = (workload.ended_at + SEEN_AFTER - datetime.now(UTC)).total_seconds()
        if visible_in > 0:
            self.wait(min(visible_in, SEEN_AFTER.total_seconds()))
        client = self.client or metric_client()
        found = {
            # what can be evicted is the page cache, which is no need of the program
            "vm_memory_usage_bytes": self._greatest(client, workload, MEMORY, without={"memory_type": "evictable"}),
            "gpu_memory_usage_bytes": self._greatest(client, workload, ACCELERATOR_MEMORY, without={}),
        }
        return {name: value for name, value in found.items() if value is not None}

    def _greatest(self, client: Any, workload: Workload, metric: str, without: dict[str, str]) -> float | None:
        values = [
            _value(point)
            for series in self._series(client, workload, metric)
            if not any(series.metric.labels.get(name) == value for name, value in without.items())
            for point in series.points
        ]
        return max(values, default=None)

    def _series(self, client: Any, workload: Workload, metric: str) -> Iterator[Any]:
        from google.cloud import monitoring_v3

        listed = client.list_time_series(
            request={
                "name": f"projects/{self.project}",
                "filter": self._filter(workload, metric),
                "interval": monitoring_v3.TimeInterval(start_time=workload.started_at, end_time=workload.ended_at),
                "view": monitoring_v3.ListTimeSeriesRequest.TimeSeriesView.FULL,
            },
            timeout=TIMEOUT,
        )
        pods = self._pods(workload)
        return (series for series in listed if pods.fullmatch(series.resource.labels["pod_name"]))

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
        """The names of the workload's own pods: `<job>-<host>-<random>` where it has several hosts."""
        job = self._job(workload)
        return re.compile(re.escape(job) + r"-\d+-[a-z0-9]+" if job else re.escape(workload.pod or ""))

    def _job(self, workload: Workload) -> str:
        named = _POD_OF_A_HOST.fullmatch(workload.pod or "") if self.hosts > 1 else None
        return named["job"] if named else ""


def memory_reader(test: TestDefinition) -> MemoryReader | None:
    """Who to ask about a test: Cloud Monitoring, if the test runs on GKE as far as anybody has told."""
    if test.cluster is not None:
        return MemoryReader(test.cluster.project, test.cluster.location, test.cluster.name, test.hosts)
    project = Settings.load().monitoring_project
    return MemoryReader(project, hosts=test.hosts) if project else None


def _value(point: Any) -> float:
    """A whole number or not, as the kind of the metric is."""
    return float(point.value.int64_value or point.value.double_value)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
