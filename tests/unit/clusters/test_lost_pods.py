"""The outcome of a workload whose pod no longer exists."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from ml_metrics.clusters.lost_pods import outcome_of_lost_pod
from ml_metrics.model import JobStatus, Workload

PENDING = Workload(JobStatus.FAILURE, "WorkerLost", pod="p", attempts=2)
STARTED = {
    "reason": "Started",
    "involvedObject": {"fieldPath": "spec.containers{base}"},
    "firstTimestamp": "2026-01-02T03:04:05Z",
}


@pytest.mark.parametrize(
    ("events", "status", "reason"),
    [
        ([], "failure", "PodDeleted"),
        ([STARTED, {"reason": "Killing"}], "failure", "PodDeleted"),
        ([{"reason": "Scheduled"}], "missed", "PodDeleted"),
        ([{"reason": "Started", "message": "Started container proxy"}], "missed", "PodDeleted"),
        ([STARTED, {"reason": "Preempted", "message": "by other/pod"}], "failure", "Preempted"),
        ([STARTED, {"reason": "TaintManagerEviction"}, {"reason": "Killing"}], "failure", "NodeLost"),
        ([STARTED, {"reason": "Evicted"}], "failure", "Evicted"),
    ],
)
def test_the_reason_comes_from_the_events(events: list[dict[str, Any]], status: str, reason: str) -> None:
    outcome = outcome_of_lost_pod(PENDING, events)
    assert (outcome.status, outcome.failure_reason, outcome.pod, outcome.attempts) == (status, reason, "p", 2)
    assert (outcome.started_at is not None) == (STARTED in events)


def test_the_reason_of_an_eviction_through_the_api_is_in_the_last_state() -> None:
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI", "message": "evicting"}
    leaving = {"status": {"phase": "Running", "conditions": [condition]}}
    outcome = outcome_of_lost_pod(PENDING, [STARTED, {"reason": "Killing"}], leaving)
    assert (outcome.status, outcome.failure_reason, outcome.detail) == ("failure", "Evicted", "evicting")
    by_hand = outcome_of_lost_pod(PENDING, [STARTED, {"reason": "Killing"}], {"status": {"phase": "Running"}})
    assert by_hand.failure_reason == "PodDeleted"


def test_an_event_without_a_path_identifies_its_container_by_message() -> None:
    event = {"reason": "Started", "message": "Started container base", "lastTimestamp": "2026-01-02T03:04:05Z"}
    outcome = outcome_of_lost_pod(PENDING, [event])
    assert (outcome.status, outcome.started_at) == ("failure", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))
