"""The peak memory of workloads on GKE, read with the real client from a server that filters like the service."""

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.cloud import monitoring_v3

from ml_metrics import TestDefinition
from ml_metrics.config.collection import MetricCollectionConfig
from ml_metrics.core.model import JobStatus, Workload
from ml_metrics.measure import collect_run
from ml_metrics.measure.cloud import memory_reader, visible_at
from ml_metrics.measure.cloud.memory import VISIBLE_AFTER, MemoryReader
from ml_metrics.store.run_folder import RunFolder
from servers.google_cloud import Monitoring

START = datetime(2026, 1, 1, 12, tzinfo=UTC)
RAN = Workload(
    JobStatus.SUCCESS, started_at=START, ended_at=START + timedelta(minutes=10), namespace="tests", pod="resnet-7f3a"
)
NOW = START + timedelta(hours=1)
RESOURCE = {
    "project_id": "project", "location": "us-central1", "cluster_name": "tests", "namespace_name": "tests",
    "pod_name": "resnet-7f3a", "container_name": "base",
}  # fmt: skip
MEMORY = "kubernetes.io/container/memory/used_bytes"
ACCELERATOR = "kubernetes.io/container/accelerator/memory_used"
TERM = re.compile(r'([a-z_.0-9]+) = (starts_with\()?"((?:[^"\\]|\\.)*)"\)?')


class Readings(Monitoring):
    """The samples of containers in the service, which returns pages of one series."""

    def __init__(self) -> None:
        super().__init__()
        self.refused = False

    def add(self, metric: str, values: dict[float, int], labels: dict[str, str] | None = None, **resource: str) -> None:
        """Values by the minute since the start."""
        points = [
            {"interval": {"end_time": START + timedelta(minutes=minute)}, "value": {"int64_value": value}}
            for minute, value in sorted(values.items(), reverse=True)
        ]
        self.series.append(
            monitoring_v3.TimeSeries(
                metric={"type": metric, "labels": labels or {}},
                resource={"type": "k8s_container", "labels": {**RESOURCE, **resource}},
                points=points,
            )
        )

    def list(self, request: Any, context: grpc.ServicerContext) -> Any:
        self.requests += 1
        if self.refused:
            context.abort(grpc.StatusCode.PERMISSION_DENIED, "Permission monitoring.timeSeries.list denied")
        assert request.name == "projects/project"
        found = [
            part for one in self.series if all(_matches(one, *term) for term in _terms(request.filter))
            if (part := _within(one, request.interval)).points
        ]  # fmt: skip
        page = int(request.page_token or 0)
        more = str(page + 1) if page + 1 < len(found) else ""
        return monitoring_v3.ListTimeSeriesResponse(time_series=found[page : page + 1], next_page_token=more)


def _terms(query: str) -> list[tuple[str, str, str]]:
    parts = query.split(" AND ")
    found = [TERM.fullmatch(part) for part in parts]
    assert all(found), query
    return [one.groups() for one in found if one]


def _matches(series: Any, field: str, starts_with: str, value: str) -> bool:
    known = {"metric.type": series.metric.type, "resource.type": series.resource.type}
    known |= {f"resource.labels.{name}": text for name, text in series.resource.labels.items()}
    value = re.sub(r"\\(.)", r"\1", value)
    return known[field].startswith(value) if starts_with else known[field] == value


def _within(series: Any, interval: Any) -> Any:
    inside = [one for one in series.points if interval.start_time < one.interval.end_time <= interval.end_time]
    return monitoring_v3.TimeSeries(metric=series.metric, resource=series.resource, points=inside)


@pytest.fixture
def readings(monkeypatch: pytest.MonkeyPatch) -> Any:
    service = Readings()
    with service.served() as address:
        monkeypatch.setenv("MONITORING_EMULATOR_HOST", address)
        yield service


def used(workload: Workload = RAN, **options: Any) -> dict[str, float]:
    return MemoryReader("project", "us-central1", "tests", **options)(workload)


def test_the_peak_within_the_pod_and_period_of_the_run(readings: Readings) -> None:
    readings.add(MEMORY, {-1: 900, 0: 800, 1: 100, 5: 300, 10: 200, 11: 700}, {"memory_type": "non-evictable"})
    readings.add(MEMORY, {5: 5000}, {"memory_type": "evictable"})
    for other in ("pod_name", "namespace_name", "cluster_name", "location", "container_name"):
        readings.add(MEMORY, {5: 9999}, {"memory_type": "non-evictable"}, **{other: "another"})
    readings.add(ACCELERATOR, {2: 40, 3: 60}, {"accelerator_id": "0"})
    readings.add(ACCELERATOR, {2: 70, 3: 50}, {"accelerator_id": "1"})
    readings.add(ACCELERATOR, {2: 99}, {"accelerator_id": "0"}, pod_name="resnet-7f3a-2")
    assert used() == {"vm_memory_usage_bytes": 300, "gpu_memory_usage_bytes": 70}
    assert readings.requests == 4  # two metrics, of two pages each


def test_metrics_without_samples_are_missing(readings: Readings) -> None:
    assert used() == {}
    readings.add(MEMORY, {5: 300})
    assert used() == {"vm_memory_usage_bytes": 300}
    for unknown in ({"pod": None}, {"started_at": None}, {"ended_at": None}):
        before = readings.requests
        assert used(replace(RAN, **unknown)) == {}  # type: ignore[arg-type]
        assert readings.requests == before


def test_all_hosts_of_the_job_count_and_no_other_job(readings: Readings) -> None:
    first_host = replace(RAN, pod="resnet-7f3a-0-x2x4q")
    readings.add(MEMORY, {5: 100}, pod_name="resnet-7f3a-0-x2x4q")
    readings.add(MEMORY, {5: 200}, pod_name="resnet-7f3a-11-abcde")
    readings.add(MEMORY, {5: 900}, pod_name="resnet-7f3a-0-0-x2x4q")
    readings.add(MEMORY, {5: 900}, pod_name="resnet-7f3a-eval-0-x2x4q")
    assert used(first_host, hosts=16) == {"vm_memory_usage_bytes": 200}
    assert used(first_host) == {"vm_memory_usage_bytes": 100}


def test_all_hosts_of_all_slices_count(readings: Readings) -> None:
    readings.add(MEMORY, {5: 100}, pod_name="resnet-7f3a-slice-0-0-x2x4q")
    readings.add(MEMORY, {5: 300}, pod_name="resnet-7f3a-slice-3-11-abcde")
    readings.add(MEMORY, {5: 900}, pod_name="resnet-7f3a-eval-slice-0-0-x2x4q")
    assert used(replace(RAN, pod="resnet-7f3a-slice-0-0-x2x4q"), hosts=48) == {"vm_memory_usage_bytes": 300}


@pytest.mark.parametrize(
    ("workload", "after_now"),
    [
        (RAN, None),
        (replace(RAN, ended_at=NOW - timedelta(minutes=1)), timedelta(minutes=2)),
        (replace(RAN, ended_at=NOW - VISIBLE_AFTER), None),
        (replace(RAN, ended_at=NOW + timedelta(days=1)), VISIBLE_AFTER),  # by the clock of another machine
        (replace(RAN, ended_at=NOW, peak_memory_bytes=1), None),
        (replace(RAN, ended_at=NOW, started_at=None), None),
        (replace(RAN, ended_at=None), None),
        (None, None),
    ],
)
def test_the_last_sample_is_visible_later(workload: Workload | None, after_now: timedelta | None) -> None:
    expected = None if after_now is None else NOW + after_now
    content = {"name": "t", "image": "i", "command": ["c"]}
    cluster = {"project": "p", "location": "l", "name": "c"}
    test = TestDefinition.model_validate({**content, "cluster": cluster})
    assert visible_at(test, workload, NOW) == expected
    without = {"metric_collection_config": {"sources": {"memory": False}}}
    for more in ({}, {"cluster": cluster, **without}):
        assert visible_at(TestDefinition.model_validate({**content, **more}), workload, NOW) is None


def test_names_are_quoted_in_the_filter(readings: Readings) -> None:
    hostile = 'x" OR resource.labels.pod_name = "resnet-7f3a'
    readings.add(MEMORY, {5: 300})
    assert used(replace(RAN, pod=hostile)) == {}


def test_the_project_comes_from_the_test_or_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = TestDefinition.model_validate({"name": "t", "image": "i", "command": ["c"]})
    assert memory_reader(plain) is None
    monkeypatch.setenv("AIRFLOW__ML_METRICS__MONITORING_PROJECT", "theirs")
    assert memory_reader(plain) == MemoryReader("theirs")
    named = {"cluster": {"project": "p", "location": "l", "name": "c"}, "accelerator": "v5litepod-16"}
    on_gke = TestDefinition.model_validate({"name": "t", "image": "i", "command": ["c"], **named})
    assert memory_reader(on_gke) == MemoryReader("p", "l", "c", hosts=4)


def test_an_error_of_the_service_loses_no_other_metrics(readings: Readings, tmp_path: Path) -> None:
    readings.refused = True
    reader = MemoryReader("project")
    found = collect_run(MetricCollectionConfig(), RunFolder(str(tmp_path)), RAN, memory_used=reader)
    assert [metric.name for metric in found.metrics] == ["total_wall_time"]
    assert "memory: could not be read: PermissionDenied: 403" in found.warnings[0]
