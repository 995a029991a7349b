"""Every way in which a workload can end on a real cluster, with whole DAGs."""

from __future__ import annotations

import pytest

from campaigns.kubernetes.cases import CASES, Case
from campaigns.kubernetes.cluster import Cluster
from ml_metrics.core.model import Workload

pytestmark = [pytest.mark.e2e]

Results = dict[str, tuple[Workload, str]]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_end_is_reported_correctly_and_recorded_once(cluster: Cluster, results: Results, case: Case) -> None:
    workload, log = results[case.name]
    assert workload.status == case.status, (workload, log[-3000:])
    assert workload.failure_reason in case.reasons, (workload, log[-3000:])
    assert workload.attempts == 1
    with cluster.home.warehouse() as warehouse:
        (job,) = warehouse.runs.newest(case.name)
    assert (job.job_status, job.failure_reason) == (case.status, workload.failure_reason)
    assert cluster.pods(case.name) == [], "the pod is removed"


@pytest.mark.parametrize("name", ["succeeds", "deferred"])
def test_the_log_of_the_pod_is_in_the_log_of_the_task(results: Results, name: str) -> None:
    _, log = results[name]
    for step in range(3):
        assert f"step {step}" in log


def test_the_workload_is_measured_and_judged(cluster: Cluster, results: Results) -> None:
    workload, _ = results["succeeds"]
    assert workload.node
    assert workload.image_digest
    assert 3 <= (workload.duration_seconds or 0) < 60
    with cluster.home.warehouse() as warehouse:
        (job,) = warehouse.runs.newest("succeeds")
        rows = {row.metric: row for row in warehouse.metrics.of_run(job.uuid)}
    assert job.verdict == "pass"
    assert rows["loss"].value == 0.25
    assert rows["loss"].outcome == "pass"
