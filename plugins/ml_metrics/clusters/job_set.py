"""A workload of several Jobs as a JobSet (jobset.x-k8s.io), and the state of a JobSet in the shape of a Job's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ml_metrics.clusters.hosts import INDEX, index_of
from ml_metrics.clusters.manifests import Manifest, job

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ml_metrics.config.definition import TestDefinition

GROUP, VERSION, PLURAL = "jobset.x-k8s.io", "v1alpha2", "jobsets"
NAME_LABEL = "jobset.sigs.k8s.io/jobset-name"
SLICE_LABEL = "jobset.sigs.k8s.io/job-index"
RESTART_LABEL = "jobset.sigs.k8s.io/restart-attempt"
EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"
SLICE = "slice"
"""The name of the replicated Job, which names of Jobs and pods contain: `NAME-slice-0`."""
ENDS = {"Completed": "Complete", "Failed": "Failed", "Suspended": "Suspended"}
"""The conditions of a Job that stand for those of a JobSet."""


def job_set(test: TestDefinition, **options: Any) -> Manifest:
    """Return the JobSet of a test. The options are those of `manifests.job`."""
    return job_set_of(test, job(test, **options))


def job_set_of(test: TestDefinition, made: Manifest) -> Manifest:
    """Return the JobSet whose Jobs are like a Job of this test, one for each slice."""
    wanted = test.job_set
    if wanted is None:
        raise ValueError(f"{test.name} has no `job_set`")
    metadata, spec = dict(made["metadata"]), dict(made["spec"])
    template = spec["template"]
    template = {**template, "spec": {key: value for key, value in template["spec"].items() if key != "subdomain"}}
    each = {
        **{key: value for key, value in spec.items() if key not in {"suspend", "ttlSecondsAfterFinished"}},
        "backoffLimit": 0,  # a Job fails with its first host, and the JobSet decides
        "completions": test.hosts,
        "parallelism": test.hosts,
        "completionMode": "Indexed",
        "template": template,
    }
    if wanted.exclusive:
        metadata["annotations"] = {**(metadata.get("annotations") or {}), EXCLUSIVE: wanted.exclusive}
    labels = template["metadata"].get("labels") or {}
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "JobSet",
        "metadata": metadata,
        "spec": {
            **({"suspend": True} if spec.get("suspend") else {}),
            "ttlSecondsAfterFinished": spec["ttlSecondsAfterFinished"],
            "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True},
            "successPolicy": {"operator": wanted.success.capitalize()},
            "failurePolicy": {"maxRestarts": wanted.restarts},
            "replicatedJobs": [
                {
                    "name": SLICE,
                    "replicas": wanted.slices,
                    "template": {"metadata": {"labels": labels}, "spec": each},
                }
            ],
        },
    }


def as_job(found: Manifest, pods: Iterable[Manifest]) -> Manifest:
    """Return the state of a JobSet as that of one Job with the pods of all its Jobs."""
    (replicated,) = found["spec"]["replicatedJobs"]
    conditions = (found.get("status") or {}).get("conditions") or []
    # the start of the newest pod: since then the JobSet waits, after a restart too
    created = [pod["metadata"].get("creationTimestamp") for pod in pods]
    resumed = [
        one.get("lastTransitionTime")
        for one in conditions
        if one.get("type") == "Suspended" and one.get("status") == "False"
    ]
    return {
        "metadata": found["metadata"],
        "spec": {
            "suspend": bool(found["spec"].get("suspend")),
            "completions": replicated["replicas"] * hosts_of(found),
        },
        "status": {
            "conditions": [{**one, "type": ENDS[one["type"]]} for one in conditions if one.get("type") in ENDS],
            "startTime": max((one for one in (*created, *resumed) if one), default=None),
        },
    }


def numbered(found: Manifest, pods: Iterable[Manifest]) -> tuple[Manifest, ...]:
    """Return the pods of the newest start of each host, with the number of the host in all Jobs as its index."""
    newest: dict[int, tuple[int, Manifest]] = {}
    for pod in pods:
        labels = pod["metadata"].get("labels") or {}
        host = _number(labels, SLICE_LABEL) * hosts_of(found) + index_of(pod)
        attempt = _number(labels, RESTART_LABEL)
        if host not in newest or newest[host][0] < attempt:
            annotations = {**(pod["metadata"].get("annotations") or {}), INDEX: str(host)}
            newest[host] = attempt, {**pod, "metadata": {**pod["metadata"], "annotations": annotations}}
    return tuple(pod for _, (_, pod) in sorted(newest.items()))


def hosts_of(found: Manifest) -> int:
    """Return how many hosts each Job of a JobSet has."""
    (replicated,) = found["spec"]["replicatedJobs"]
    return int(replicated["template"]["spec"]["completions"])


def _number(labels: Manifest, name: str) -> int:
    text = str(labels.get(name, ""))
    return int(text) if text.isdigit() else 0
