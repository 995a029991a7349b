"""A test as Kubernetes objects: a pod, a Job, a CronJob and a service, as plain dictionaries.

The operators create the same objects that `ml-metrics render` prints.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ml_metrics.airflow.clusters.outcome import INDEX, QUEUE_LABEL, index_of
from ml_metrics.config.naming import as_label, as_name
from ml_metrics.config.policy import ACCOUNT_KEYS, TOKEN
from ml_metrics.config.templates import TEMPLATED, rendered
from ml_metrics.core.errors import ConfigError
from ml_metrics.core.faults import DELETE_POD, DISK_FULL, EVICT, LOSE_STORAGE
from ml_metrics.core.model import WORKLOAD_CONTAINER
from ml_metrics.core.text import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ml_metrics.config.definition import TestDefinition
    from ml_metrics.config.pod import Volume


Manifest = dict[str, Any]

JOB_NAME_FIELD = "metadata.labels['job-name']"
JOB_SET_FIELD = "metadata.labels['jobset.sigs.k8s.io/jobset-name']"
SLICE_FIELD = "metadata.labels['jobset.sigs.k8s.io/job-index']"
KEEP_FINISHED_SECONDS = 7 * 24 * 3600
AS_CRON = {"@quarterly": "0 0 1 */3 *"}
"""Presets of Airflow that Kubernetes does not support, as cron expressions."""
WITHOUT_CRON = frozenset({None, "@once", "@continuous"})
RUN_FOLDER_ANNOTATION = "ml-metrics/run-folder"
BUCKET_DRIVER = "gcsfuse.csi.storage.gke.io"
"""The GKE driver that mounts Cloud Storage."""


def pod(
    test: TestDefinition,
    *,
    run_dir: str | None = None,
    env: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
) -> Manifest:
    """Return the pod of a test, or of one of its hosts.

    `run_dir` is the folder to which the workload writes. Default: a folder in `OUTPUT_BUCKET` of the cluster. `env` and
    `labels` take precedence over those of the test.
    """
    return _pod(test, "metadata.name", run_dir, env or {}, {**_queue(test), **(labels or {})}, {})


def job(
    test: TestDefinition,
    *,
    name: str | None = None,
    run_dir: str | None = None,
    env: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
) -> Manifest:
    made = _pod(test, JOB_NAME_FIELD, run_dir, env or {}, labels or {}, _discovery(test, name))
    of_pod = {key: value for key, value in made["metadata"].items() if key not in {"name", "namespace"}}
    template = {"metadata": of_pod, "spec": made["spec"]}
    metadata = {
        "name": name or test.name,
        **_namespace(test),
        "labels": {**_labels(test), **_queue(test), **(labels or {})},
    }
    spec: Manifest = {
        "backoffLimit": test.retries,
        "ttlSecondsAfterFinished": KEEP_FINISHED_SECONDS,
        "template": template,
    }
    if test.queue:
        spec["suspend"] = True  # Kueue starts it when it fits
    if test.hosts > 1:
        spec |= {"completions": test.hosts, "parallelism": test.hosts, "completionMode": "Indexed"}
        template["spec"]["subdomain"] = metadata["name"]
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def cron_job(test: TestDefinition, *, run_dir: str | None = None) -> Manifest:
    """Return the CronJob of a test. Raises ConfigError if its schedule has no cron format."""
    if test.schedule in WITHOUT_CRON:
        raise ConfigError(f"{test.name}: a CronJob needs a schedule in cron format, not {test.schedule!r}")
    if test.job_set is not None:
        raise ConfigError(f"{test.name}: a CronJob starts Jobs, not JobSets; leave `job_set` out")
    once = job(test, run_dir=run_dir)
    metadata = dict(once["metadata"])
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": metadata,
        "spec": {
            "schedule": AS_CRON.get(str(test.schedule), test.schedule),
            "concurrencyPolicy": "Forbid",
            "successfulJobsHistoryLimit": 1,
            "jobTemplate": {"metadata": {"labels": metadata["labels"]}, "spec": once["spec"]},
        },
    }


def service(
    test: TestDefinition, *, name: str | None = None, labels: Mapping[str, str] | None = None
) -> Manifest | None:
    """Return the headless service through which the hosts of a Job find each other.

    None for a single host, and for a JobSet, which has one of its own.
    `name` is the Job. Without it, the service is for the Jobs of a CronJob, of which only one runs at a time.
    """
    if test.hosts == 1 or test.job_set is not None:
        return None
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name or test.name, **_namespace(test), "labels": {**_labels(test), **(labels or {})}},
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,  # hosts resolve each other before they are ready
            "selector": {"job-name": name} if name else {"ml-metrics/test": test.name},
        },
    }


def _pod(
    test: TestDefinition,
    job_name: str,
    run_dir: str | None,
    env: Mapping[str, str],
    labels: Mapping[str, str],
    discovery: Mapping[str, str],
) -> Manifest:
    mounts, volumes, annotations = _mounts_and_volumes(test.volumes)
    accelerator = test.accelerator
    selector = {**accelerator.node_selector, **test.node_selector}
    container = {
        "name": WORKLOAD_CONTAINER,
        "image": test.image,
        "command": list(test.command),
        "args": list(test.args),
        "envFrom": [{"configMapRef": {"name": name, "optional": True}} for name in test.config_maps],
        "env": _env(test, job_name, run_dir, discovery, env),
        "resources": _resources(test),
        "volumeMounts": mounts,
    }
    spec = {
        "restartPolicy": "Never",
        "activeDeadlineSeconds": int(test.timeout.total_seconds()),
        "containers": [_without_empty(container)],
        "initContainers": list(test.init_containers),
        "nodeSelector": {label: value for label, value in selector.items() if value is not None},
        "tolerations": [*accelerator.tolerations, *test.tolerations],
        "serviceAccountName": test.service_account,
        "priorityClassName": test.priority_class,
        "imagePullSecrets": [{"name": name} for name in test.image_pull_secrets],
        "volumes": volumes,
    }
    if not {fault.what.partition("(")[0] for fault in test.faults} <= {DELETE_POD, EVICT, DISK_FULL, LOSE_STORAGE}:
        # nothing in a container can kill or freeze the process with the number 1, which the pod then has for itself
        spec["shareProcessNamespace"] = True
    metadata = {
        "name": test.name,
        **_namespace(test),
        "labels": {**_labels(test), **labels},
        "annotations": {**annotations, **test.annotations},
    }
    own = {"apiVersion": "v1", "kind": "Pod", "metadata": _without_empty(metadata), "spec": _without_empty(spec)}
    made: Manifest = _merged(own, test.pod)
    # the program of a test that asks for no service account gets no token of one
    if TOKEN not in made["spec"] and not any(map(made["spec"].get, ACCOUNT_KEYS)):
        made["spec"][TOKEN] = False
    if run_dir is not None:  # which the test file cannot replace: the local cluster opens this folder to the pod
        made["metadata"]["annotations"] = {
            **(made["metadata"].get("annotations") or {}),
            RUN_FOLDER_ANNOTATION: run_dir,
        }
    return made


def _env(
    test: TestDefinition, job_name: str, run_dir: str | None, discovery: Mapping[str, str], env: Mapping[str, str]
) -> list[Manifest]:
    """Return the variables, ordered so that each can use earlier ones: `$(MODEL_DIR)/checkpoints`."""
    folder = run_dir or f"$(OUTPUT_BUCKET)/{test.name}/$(JOB_NAME)"
    fields = {
        "POD_NAME": "metadata.name",
        "POD_UID": "metadata.uid",
        "POD_NAMESPACE": "metadata.namespace",
        "JOB_NAME": job_name,
    }
    if discovery:
        fields["KUBERNETES_JOB"] = JOB_NAME_FIELD
    if discovery and test.job_set is not None:
        fields |= {"JOB_NAME": JOB_SET_FIELD, "KUBERNETES_JOB_SET": JOB_SET_FIELD, "ML_METRICS_SLICE": SLICE_FIELD}
    found: dict[str, Manifest] = {
        name: {"name": name, "valueFrom": {"fieldRef": {"fieldPath": field}}} for name, field in fields.items()
    }
    for name, key in test.secrets.items():
        found[name] = {"name": name, "valueFrom": {"secretKeyRef": {"name": key.secret, "key": key.key}}}
    ours = {"ML_METRICS_RUN_DIR": folder, "MODEL_DIR": folder, **discovery}
    for name, value in {**ours, **test.env, **env}.items():
        found[name] = {"name": name, "value": value}
    return list(found.values())


def _discovery(test: TestDefinition, name: str | None) -> dict[str, str]:
    """Return the variables with which the hosts of a Job find the first one. Their index is `JOB_COMPLETION_INDEX`."""
    if test.job_set is not None:
        return {
            "ML_METRICS_HOSTS": str(test.pods),
            "ML_METRICS_SLICES": str(test.job_set.slices),
            "ML_METRICS_FIRST_HOST": "$(KUBERNETES_JOB_SET)-slice-0-0.$(KUBERNETES_JOB_SET)",
        }
    if test.hosts == 1:
        return {}
    return {
        "ML_METRICS_HOSTS": str(test.hosts),
        "ML_METRICS_FIRST_HOST": f"$(KUBERNETES_JOB)-0.{name or test.name}",
    }


def _resources(test: TestDefinition) -> Manifest:
    resources = test.resources
    requests: dict[str, str | None] = {
        "cpu": resources.cpu,
        "memory": resources.memory,
        "ephemeral-storage": resources.ephemeral_storage,
    }
    if test.accelerator.resource:
        requests[test.accelerator.resource] = str(test.accelerator.per_host)
    limits = {**requests, **resources.limits}
    return _without_empty({"requests": _without_empty(requests), "limits": _without_empty(limits)})


def _labels(test: TestDefinition) -> dict[str, str]:
    own = {"test": test.name, "owner": test.owner, "accelerator": test.accelerator.name}
    parts = {"framework": test.framework, "model": test.model, "mode": test.mode}
    labels = {f"ml-metrics/{key}": as_label(value) for key, value in {**own, **parts}.items() if value}
    return {**labels, **test.labels}


def _queue(test: TestDefinition) -> dict[str, str]:
    """Return the queue label, for a Job or a single pod. On the pods of a Job, Kueue would queue them a second time."""
    return {QUEUE_LABEL: test.queue} if test.queue else {}


def _namespace(test: TestDefinition) -> dict[str, str]:
    return {"namespace": test.namespace} if test.namespace else {}


def _without_empty(fields: Mapping[str, Any]) -> Manifest:
    return {key: value for key, value in fields.items() if value not in (None, [], {}, "")}


def _merged(base: Any, override: Any) -> Any:
    """Return the base with the override merged into it.

    Mappings are merged key by key, and null removes a key. Lists of named objects (containers, volumes, variables) are
    merged by name and other lists are replaced, mostly like a strategic merge patch of Kubernetes.
    """
    if isinstance(base, dict) and isinstance(override, dict):
        both = {key: _merged(base[key], value) if key in base else value for key, value in override.items()}
        return {key: value for key, value in {**base, **both}.items() if value is not None}
    named = isinstance(base, list) and isinstance(override, list)
    if named and all(isinstance(item, dict) and "name" in item for item in (*base, *override)):
        by_name = {item["name"]: item for item in base}
        for item in override:
            by_name[item["name"]] = _merged(by_name.get(item["name"], {}), item)
        return list(by_name.values())
    return override


def _mounts_and_volumes(volumes: Mapping[str, Volume]) -> tuple[list[Manifest], list[Manifest], dict[str, str]]:
    mounts: list[Manifest] = []
    sources: list[Manifest] = []
    for number, (path, volume) in enumerate(volumes.items()):
        name = f"{as_name(path)[:50]}-{number}".lstrip("-")
        mounts.append({"name": name, "mountPath": path, **({"readOnly": True} if volume.read_only else {})})
        sources.append({"name": name, **_source(volume)})
    bucket = any(volume.bucket for volume in volumes.values())
    return mounts, sources, {"gke-gcsfuse/volumes": "true"} if bucket else {}


def _source(volume: Volume) -> dict[str, Any]:
    sources: dict[str, Manifest] = {
        "claim": {"persistentVolumeClaim": {"claimName": volume.claim}},
        "config_map": {"configMap": {"name": volume.config_map}},
        "secret": {"secret": {"secretName": volume.secret}},
        "host_path": {"hostPath": {"path": volume.host_path}},
        "bucket": {"csi": {"driver": BUCKET_DRIVER, "volumeAttributes": {"bucketName": volume.bucket}}},
        "memory": {"emptyDir": {"medium": "Memory", "sizeLimit": volume.memory}},
        "scratch": {"emptyDir": {"sizeLimit": volume.scratch}},
    }
    return sources[volume.kind]


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
    return job_set_of(test, job(test, **options))


def job_set_of(test: TestDefinition, made: Manifest) -> Manifest:
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
    (replicated,) = found["spec"]["replicatedJobs"]
    return int(replicated["template"]["spec"]["completions"])


def _number(labels: Manifest, name: str) -> int:
    text = str(labels.get(name, ""))
    return int(text) if text.isdigit() else 0


def with_parameters(test: TestDefinition, values: Mapping[str, Any]) -> TestDefinition:
    """Return the test with `{{ params.name }}` replaced by these values or the defaults of the parameters.

    Raises ConfigError for a value without a parameter, and for a template of what only a run has, such as its date.
    """
    for name in values:
        if name not in test.params:
            raise ConfigError(f"{test.name} has no parameter {name!r}{did_you_mean(name, test.params)}")
    params = {name: values.get(name, parameter.default) for name, parameter in test.params.items()}
    known = {"params": params}
    return test.model_copy(
        update={key: rendered(getattr(test, key), known, f"{test.name}: {key}") for key in TEMPLATED}
    )
