"""JobSets: what is asked of a cluster, and the state of one in the shape of a Job's."""

from __future__ import annotations

from typing import Any

import kubernetes_validate
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from golden import check
from ml_metrics import ConfigError, TestDefinition
from ml_metrics.airflow import job_set
from ml_metrics.airflow.clusters.manifests import (
    EXCLUSIVE,
    RESTART_LABEL,
    SLICE_LABEL,
    as_job,
    cron_job,
    numbered,
    service,
)
from ml_metrics.airflow.clusters.outcome import INDEX, Hosts, Stage, index_of

NEWEST = kubernetes_validate.latest_version()


def definition(**fields: Any) -> TestDefinition:
    common = {"framework": "jax", "model": "m", "mode": "func", "image": "image:v1", "command": ["train"]}
    return TestDefinition.model_validate({**common, "accelerator": "v5litepod-16", **fields})


def validate(made: dict[str, Any]) -> None:
    """Check a JobSet strictly: its own fields by the reference of jobset.x-k8s.io/v1alpha2, its Jobs as Jobs."""
    assert set(made) == {"apiVersion", "kind", "metadata", "spec"}
    assert (made["apiVersion"], made["kind"]) == ("jobset.x-k8s.io/v1alpha2", "JobSet")
    kinds: dict[str, type] = {
        "suspend": bool,
        "ttlSecondsAfterFinished": int,
        "network": dict,
        "successPolicy": dict,
        "failurePolicy": dict,
        "replicatedJobs": list,
    }
    for name, value in made["spec"].items():
        assert isinstance(value, kinds[name]), name
    assert set(made["spec"]["network"]) <= {"enableDNSHostnames", "subdomain", "publishNotReadyAddresses"}
    assert made["spec"]["successPolicy"]["operator"] in {"All", "Any"}
    assert made["spec"]["failurePolicy"]["maxRestarts"] >= 0
    for replicated in made["spec"]["replicatedJobs"]:
        assert set(replicated) == {"name", "replicas", "template"}
        assert set(replicated["template"]) == {"metadata", "spec"}
        assert "subdomain" not in replicated["template"]["spec"]["template"]["spec"], "the controller sets it"
        metadata = {"name": "x", **replicated["template"]["metadata"]}
        child = {"apiVersion": "batch/v1", "kind": "Job", **replicated["template"], "metadata": metadata}
        kubernetes_validate.validate(child, NEWEST, strict=True)


def test_job_sets_word_for_word() -> None:
    plain = definition(job_set={"slices": 2})
    everything = definition(
        job_set={"slices": 4, "restarts": 3, "exclusive": "cloud.google.com/gke-nodepool", "success": "any"},
        queue="tpu",
        namespace="tests",
        retries=2,
        labels={"team": "vision"},
    )
    single = definition(accelerator="v5litepod-8", job_set={"slices": 2})
    made = [job_set(one) for one in (plain, everything, single)]
    for one in made:
        validate(one)
    check("clusters/job_sets.yaml", yaml.safe_dump_all(made, sort_keys=False, width=120))
    assert made[1]["metadata"]["annotations"] == {EXCLUSIVE: "cloud.google.com/gke-nodepool"}
    assert made[2]["spec"]["replicatedJobs"][0]["template"]["spec"]["completions"] == 1, "Indexed, for one host too"


def test_a_job_set_makes_its_own_service_and_no_cron_job() -> None:
    test = definition(job_set={"slices": 2}, schedule="@daily")
    assert service(test) is None
    with pytest.raises(ConfigError, match="starts Jobs, not JobSets"):
        cron_job(test)


def found(*conditions: dict[str, Any], suspend: bool = False, slices: int = 2, hosts: int = 2) -> dict[str, Any]:
    replicated = {"name": "slice", "replicas": slices, "template": {"spec": {"completions": hosts}}}
    return {
        "metadata": {"name": "s", "namespace": "ns", "uid": "u", "creationTimestamp": "2026-01-02T03:00:00Z"},
        "spec": {"suspend": suspend, "replicatedJobs": [replicated]},
        "status": {"conditions": list(conditions)},
    }


def condition(kind: str, status: str = "True", **more: str) -> dict[str, Any]:
    return {"type": kind, "status": status, "lastTransitionTime": "2026-01-02T03:10:00Z", **more}


def pod(part: int, host: int, attempt: int = 0, **state: Any) -> dict[str, Any]:
    labels = {SLICE_LABEL: str(part), RESTART_LABEL: str(attempt)}
    metadata = {
        "name": f"s-slice-{part}-{host}-{attempt}",
        "labels": labels,
        "annotations": {INDEX: str(host)},
        "creationTimestamp": f"2026-01-02T03:0{attempt}:00Z",
    }
    return {"metadata": metadata, "status": {"containerStatuses": [{"name": "base", "state": state}]}}


RUNNING = {"running": {"startedAt": "2026-01-02T03:01:00Z"}}


@given(st.integers(1, 9), st.integers(1, 9), st.randoms())
def test_hosts_are_numbered_over_all_slices(slices: int, hosts: int, order: Any) -> None:
    pods = [pod(part, host) for part in range(slices) for host in range(hosts)]
    order.shuffle(pods)
    numbers = numbered(found(slices=slices, hosts=hosts), pods)
    assert [index_of(one) for one in numbers] == list(range(slices * hosts))
    assert numbers[-1]["metadata"]["name"] == f"s-slice-{slices - 1}-{hosts - 1}-0"


def test_after_a_restart_the_new_pods_count_and_the_waiting_time_starts_again() -> None:
    pods = [pod(0, 0, 0, **RUNNING), pod(0, 0, 1), pod(0, 1, 1, **RUNNING), pod(1, 0, 0, **RUNNING)]
    hosts = numbered(found(), pods)
    assert [one["metadata"]["name"] for one in hosts] == ["s-slice-0-0-1", "s-slice-0-1-1", "s-slice-1-0-0"]
    job = as_job(found(condition("Suspended", "False")), hosts)
    assert job["status"]["startTime"] == "2026-01-02T03:10:00Z"
    state = Hosts(job, hosts)
    assert (state.count, state.stage) == (4, Stage.STARTING)


def test_the_stages_of_a_job_set() -> None:
    all_run = numbered(found(), [pod(part, host, **RUNNING) for part in range(2) for host in range(2)])
    assert Hosts(as_job(found(), all_run), all_run).stage is Stage.RUNNING
    assert Hosts(as_job(found(suspend=True), ())).stage is Stage.QUEUED
    assert Hosts(as_job(found(), ())).waiting_since is not None
    done = Hosts(as_job(found(condition("Completed")), ()))
    assert (done.stage, str(done.outcome().status)) == (Stage.ENDED, "success")
    failed = Hosts(as_job(found(condition("Failed", reason="ReachedMaxRestarts", message="3 restarts")), ())).outcome()
    assert (failed.failure_reason, failed.detail) == ("ReachedMaxRestarts", "3 restarts")
