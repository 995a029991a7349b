from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from ml_metrics.alerts.job import job_facts, job_words
from ml_metrics.core.model import JobStatus, Workload

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
ERROR = "ModuleNotFoundError: No module named 'flax'"
PULL = 'Back-off pulling image "mnist:v42". It will be tried again.'
NO_NODE = "0/3 nodes are available: 3 Insufficient cpu."


def workload(status: JobStatus, reason: str, detail: str | None = None, limit: str | None = None) -> Workload:
    peak = 2**31 - 2**20 if limit else None
    ended = NOON + timedelta(hours=2)
    return Workload(status, reason, detail, started_at=NOON, ended_at=ended, memory_limit=limit, peak_memory_bytes=peak)


@pytest.mark.parametrize(
    ("found", "error", "short", "headline"),
    [
        (workload(JobStatus.FAILURE, "ExitCode:1"), ERROR, ERROR, ERROR),
        (workload(JobStatus.FAILURE, "ExitCode:3"), "", "exit code 3", "The job ended with exit code 3"),
        (
            workload(JobStatus.FAILURE, "OOMKilled", limit="2Gi"),
            "",
            "out of memory (limit 2Gi, highest measured 2Gi)",
            "The job ran out of memory: limit 2Gi, highest measured 2Gi",
        ),
        (
            workload(JobStatus.TIMEOUT, "DeadlineExceeded"),
            "",
            "stopped after 2 h by its timeout",
            "The job was stopped after 2 h, by its timeout",
        ),
        (
            workload(JobStatus.MISSED, "ImagePullBackOff", PULL),
            "",
            "never started: the image cannot be pulled",
            'The job never started: the image cannot be pulled: Back-off pulling image "mnist:v42"',
        ),
        (
            workload(JobStatus.MISSED, "Unschedulable", NO_NODE),
            "",
            "never started: no node fits",
            "The job never started: no node fits: 0/3 nodes are available: 3 Insufficient cpu",
        ),
        (
            workload(JobStatus.FAILURE, "Evicted", "The node was low on resource: memory."),
            "",
            "job failure (Evicted)",
            "The job failed: Evicted: The node was low on resource: memory",
        ),
    ],
)
def test_a_failed_job_has_a_headline(found: Workload, error: str, short: str, headline: str) -> None:
    assert job_words(found, error) == (short, headline)


def test_the_cluster_has_the_last_word_unless_it_is_in_the_headline() -> None:
    found = workload(JobStatus.MISSED, "ImagePullBackOff", PULL)
    (fact,) = job_facts(found, job_words(found, "")[1])
    assert (fact.name, fact.value) == ("the cluster", PULL)
    full = workload(JobStatus.MISSED, "Unschedulable", NO_NODE)
    assert list(job_facts(full, job_words(full, "")[1])) == []
