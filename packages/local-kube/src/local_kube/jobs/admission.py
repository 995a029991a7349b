"""Admission of Jobs: validation, defaults, and the changes that clients may make."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from local_kube.errors import ApiError
from local_kube.pods import admission

if TYPE_CHECKING:
    from collections.abc import Iterator

    from local_kube.json_files import Document

MAX_NAME_LENGTH = 63
"""The name of a Job becomes a label of its pods."""
JOB_UID, JOB_NAME = "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name"
LEGACY_LABELS = {JOB_UID: "controller-uid", JOB_NAME: "job-name"}
"""The earlier names of these labels, which Kubernetes still sets too."""
DEFAULTS: Document = {
    "backoffLimit": 6,
    "completionMode": "NonIndexed",
    "suspend": False,
    "podReplacementPolicy": "TerminatingOrFailed",
}
NOT_SUPPORTED = (
    "podFailurePolicy",
    "successPolicy",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
    "managedBy",
    "manualSelector",
)
"""Fields that change how a Job runs or ends: rejected, because ignoring them would give a wrong result."""
IMMUTABLE = ("selector", "completionMode", "podReplacementPolicy")


def admit(job: Document) -> Document:
    """Return a new Job with every default; raise ApiError with all the reasons to reject it."""
    spec = {**DEFAULTS, **{name: value for name, value in (job.get("spec") or {}).items() if value is not None}}
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    selector_errors = ["spec.selector: Invalid value: `selector` not auto-generated"] if spec.get("selector") else []
    _reject(job, [*selector_errors, *_spec_errors(job, spec)])
    _add_selector(job, spec)
    return {**job, "spec": spec, "status": {}}


def admit_change(job: Document, wanted: Document) -> Document:
    """Return a Job after a client's change; raise ApiError if the change concerns an immutable field."""
    before, spec = job["spec"], dict(wanted.get("spec") or {})
    _reject(job, [*_change_errors(before, spec, started="startTime" in job["status"]), *_spec_errors(job, spec)])
    return {**job, "metadata": wanted["metadata"], "spec": spec}


def _add_selector(job: Document, spec: Document) -> None:
    """Set the labels of the Job's pods, and the selector that finds them."""
    metadata = job["metadata"]
    template = spec["template"] = copy.deepcopy(spec["template"])
    labels = {JOB_UID: metadata["uid"], JOB_NAME: metadata["name"]}
    labels |= {LEGACY_LABELS[name]: value for name, value in labels.items()}
    template["metadata"] = {**(template.get("metadata") or {})}
    template["metadata"]["labels"] = {**(template["metadata"].get("labels") or {}), **labels}
    spec["selector"] = {"matchLabels": {JOB_UID: metadata["uid"]}}


def _spec_errors(job: Document, spec: Document) -> Iterator[str]:
    name = job["metadata"]["name"]
    if len(name) > MAX_NAME_LENGTH:
        yield f'metadata.name: Invalid value: "{name}": must be no more than {MAX_NAME_LENGTH} characters'
    for field in ("parallelism", "completions", "backoffLimit", "activeDeadlineSeconds", "ttlSecondsAfterFinished"):
        value = spec.get(field)
        if value is not None and (not isinstance(value, int) or value < 0):
            yield f"spec.{field}: Invalid value: {value}: must be greater than or equal to 0"
    for field in NOT_SUPPORTED:
        if spec.get(field) is not None and spec[field] is not False:
            yield f"spec.{field}: Forbidden: the local cluster does not support it"
    if spec["completionMode"] not in {"NonIndexed", "Indexed"}:
        yield f'spec.completionMode: Unsupported value: "{spec["completionMode"]}"'
    if spec["completionMode"] == "Indexed" and spec.get("completions") is None:
        yield "spec.completions: Required value: when completion mode is Indexed"
    yield from _template_errors(spec)


def _template_errors(spec: Document) -> Iterator[str]:
    template = spec.get("template") or {}
    pod_spec = template.get("spec") or {}
    if pod_spec.get("restartPolicy") not in {"Never", "OnFailure"}:
        yield 'spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"'
        return
    labels = (template.get("metadata") or {}).get("labels") or {}
    try:
        admission.admit({"metadata": {"name": "pod", "labels": labels}, "spec": pod_spec}, "default")
    except ApiError as error:
        yield f"spec.template: {str(error).partition('is invalid: ')[2] or error}"


def _change_errors(before: Document, spec: Document, *, started: bool) -> Iterator[str]:
    for field in IMMUTABLE:
        if spec.get(field) != before.get(field):
            yield f"spec.{field}: Invalid value: field is immutable"
    if spec.get("template") != before["template"] and (started or not before["suspend"]):
        yield "spec.template: Invalid value: field is immutable"
    elastic = spec.get("completions") == spec.get("parallelism") and spec.get("completionMode") == "Indexed"
    if spec.get("completions") != before.get("completions") and not elastic:
        yield "spec.completions: Invalid value: field is immutable"


def _reject(job: Document, errors: list[str]) -> None:
    if errors:
        name = job["metadata"]["name"]
        raise ApiError(422, f'Job "{name}" is invalid: {errors[0] if len(errors) == 1 else errors}')
