"""Every way in which a workload ends on a real cluster, through the whole DAG."""

from __future__ import annotations

import pytest

from campaigns.kubernetes.cluster import Cluster
from campaigns.kubernetes.stories import STORIES, Story
from ml_metrics.model import Workload

pytestmark = [pytest.mark.e2e]

Told = dict[str, tuple[Workload, str]]


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
def test_every_end_is_told_truthfully_and_recorded_once(cluster: Cluster, told: Told, story: Story) -> None:
    workload, said = told[story.name]
    assert workload.status == story.status, (workload, said[-3000:])
    assert workload.failure_reason in story.reasons, (workload, said[-3000:])
    assert workload.attempts == 1
    with cluster.home.warehouse() as warehouse:
        (job,) = warehouse.runs.newest(story.name)
    assert (job.job_status, job.failure_reason) == (story.status, workload.failure_reason)
    assert cluster.pods(story.name) == [], "nothing is left behind"


@pytest.mark.parametrize("name", ["well", "deferred"])
def test_what_the_pod_says_is_in_the_log_of_the_task(told: Told, name: str) -> None:
    _, said = told[name]
    for step in range(3):
        assert f"step {step}" in said


def test_the_workload_is_measured_and_judged(cluster: Cluster, told: Told) -> None:
    workload, _ = told["well"]
    assert workload.node
    assert workload.image_digest
    assert 3 <= (workload.duration_seconds or 0) < 60
    with cluster.home.warehouse() as warehouse:
        (job,) = warehouse.runs.newest("well")
        rows = {row.metric: row for row in warehouse.metrics.of_run(job.uuid)}
    assert job.verdict == "pass"
    assert rows["loss"].value == 0.25
    assert rows["loss"].outcome == "pass"
