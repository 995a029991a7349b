"""What a suspended workload waits for, by the conditions that Kueue documents."""

from __future__ import annotations

from typing import Any

import pytest

from ml_metrics.airflow.clusters.outcome import QUEUE_LABEL, reason_of_suspension

QUEUED_JOB = {"metadata": {"labels": {QUEUE_LABEL: "tpu"}}}
ALONE = "it was suspended, and is in no queue that would start it"
NO_QUOTA = "couldn't assign flavors to pod set main: insufficient unused quota for google.com/tpu, 8 more needed"


def workload(*conditions: tuple[str, str, str, str]) -> dict[str, Any]:
    keys = ("type", "status", "reason", "message")
    return {"status": {"conditions": [dict(zip(keys, one, strict=True)) for one in conditions]}}


@pytest.mark.parametrize(
    ("job", "found", "events", "end"),
    [
        ({"metadata": {}}, None, [], ("missed", "Suspended", ALONE)),
        (QUEUED_JOB, None, [], ("missed", "Queued", "not admitted by the queue tpu yet")),
        (QUEUED_JOB, {}, [{"message": "first"}, {"message": "no quota"}, {}],
         ("missed", "Queued", "not admitted by the queue tpu yet: no quota")),
        (QUEUED_JOB, workload(("QuotaReserved", "False", "Pending", NO_QUOTA)), [{"message": "suspended"}],
         ("missed", "Queued", f"not admitted by the queue tpu yet: {NO_QUOTA}")),
        (QUEUED_JOB, workload(("QuotaReserved", "True", "", "yes"), ("Admitted", "False", "", "checks pending")), [],
         ("missed", "Queued", "not admitted by the queue tpu yet: checks pending")),
        (QUEUED_JOB, workload(("Evicted", "True", "Preempted", "by a higher priority")), [],
         ("failure", "Preempted", "by a higher priority")),
        (QUEUED_JOB, workload(("Evicted", "True", "PodsReadyTimeout", "exceeded 5m")), [],
         ("failure", "Evicted", "PodsReadyTimeout: exceeded 5m")),
        (QUEUED_JOB, workload(("Evicted", "False", "Preempted", "by a higher priority")), [],
         ("missed", "Queued", "not admitted by the queue tpu yet")),
    ],
)  # fmt: skip
def test_the_reason_of_a_suspension(job: Any, found: Any, events: Any, end: tuple[str, str, str]) -> None:
    assert reason_of_suspension(job, found, events) == end
