"""What a Job must be to be let in, what the cluster fills in, and what of it may change later."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from local_kube import admission
from local_kube.refusals import RefusalError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from local_kube.records import Document

LONGEST_NAME = 63
"""The name of a Job becomes the value of a label on its pods."""
JOB_UID, JOB_NAME = "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name"
OLDER_NAMES = {JOB_UID: "controller-uid", JOB_NAME: "job-name"}
"""The labels as they were called before, which are set beside the new ones."""
DEFAULTS: Document = {
    "backoffLimit": 6,
    "completionMode": "NonIndexed",
    "suspend": False,
    "podReplacementPolicy": "TerminatingOrFailed",
}
NOT_SERVED = ("podFailurePolicy", "successPolicy", "backoffLimitPerIndex", "maxFailedIndexes", "managedBy")
"""Parts of a Job that change how it ends: refused, because ignoring them would tell another story."""
FIXED = ("selector", "completionMode", "podReplacementPolicy", "manualSelector")


def admitted(job: Document) -> Document:
    """A new Job whose metadata is complete, with its spec complete too; RefusalError with all that is wrong."""
    spec = {**DEFAULTS, **{name: value for name, value in (job.get("spec") or {}).items() if value is not None}}
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    _refuse(job, [*_wrong_selector(spec), *_wrong(job, spec)])
    _tie(job, spec)
    return {**job, "spec": spec, "status": {}}


def changed(job: Document, wanted: Document) -> Document:
    """A Job after a client's change of its metadata or spec; RefusalError where that may not change."""
    before, spec = job["spec"], dict(wanted.get("spec") or {})
    _refuse(job, [*_forbidden(before, spec, begun="startTime" in job["status"]), *_wrong(job, spec)])
    return {**job, "metadata": wanted["metadata"], "spec": spec}


def _tie(job: Document, spec: Document) -> None:
    """Let the Job and its pods find each other by labels."""
    metadata = job["metadata"]
    template = spec["template"] = copy.deepcopy(spec["template"])
    marks = {JOB_UID: metadata["uid"], JOB_NAME: metadata["name"]}
    labels = {**marks, **{OLDER_NAMES[name]: value for name, value in marks.items()}}
    template["metadata"] = {**(template.get("metadata") or {})}
    template["metadata"]["labels"] = {**(template["metadata"].get("labels") or {}), **labels}
    if not spec.get("manualSelector"):
        spec["selector"] = {"matchLabels": {JOB_UID: metadata["uid"]}}


def _wrong(job: Document, spec: Document) -> Iterator[str]:
    name = job["metadata"]["name"]
    if len(name) > LONGEST_NAME:
        yield f'metadata.name: Invalid value: "{name}": must be no more than {LONGEST_NAME} characters'
    for field in ("parallelism", "completions", "backoffLimit", "activeDeadlineSeconds", "ttlSecondsAfterFinished"):
        value = spec.get(field)
        if value is not None and (not isinstance(value, int) or value < 0):
            yield f"spec.{field}: Invalid value: {value}: must be greater than or equal to 0"
    for field in NOT_SERVED:
        if spec.get(field) is not None:
            yield f"spec.{field}: Forbidden: the local cluster does not serve it"
    if spec["completionMode"] not in {"NonIndexed", "Indexed"}:
        yield f'spec.completionMode: Unsupported value: "{spec["completionMode"]}"'
    if spec["completionMode"] == "Indexed" and spec.get("completions") is None:
        yield "spec.completions: Required value: when completion mode is Indexed"
    yield from _wrong_template(spec)


def _wrong_selector(spec: Document) -> Iterator[str]:
    if bool(spec.get("selector")) is not bool(spec.get("manualSelector")):
        yield "spec.selector: Invalid value: `selector` not auto-generated"


def _wrong_template(spec: Document) -> Iterator[str]:
    template = spec.get("template") or {}
    pod_spec = template.get("spec") or {}
    if pod_spec.get("restartPolicy") not in {"Never", "OnFailure"}:
        yield 'spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"'
        return
    labels = (template.get("metadata") or {}).get("labels") or {}
    try:
        admission.admitted({"metadata": {"name": "pod", "labels": labels}, "spec": pod_spec}, "default")
    except RefusalError as error:
        yield f"spec.template: {str(error).partition('is invalid: ')[2] or error}"


def _forbidden(before: Document, spec: Document, *, begun: bool) -> Iterator[str]:
    for field in FIXED:
        if spec.get(field) != before.get(field):
            yield f"spec.{field}: Invalid value: field is immutable"
    if spec.get("template") != before["template"] and (begun or not before["suspend"]):
        yield "spec.template: Invalid value: field is immutable"
    together = spec.get("completions") == spec.get("parallelism") and spec.get("completionMode") == "Indexed"
    if spec.get("completions") != before.get("completions") and not together:
        yield "spec.completions: Invalid value: field is immutable"


def _refuse(job: Document, wrong: list[str]) -> None:
    if wrong:
        name = job["metadata"]["name"]
        raise RefusalError(422, f'Job "{name}" is invalid: {wrong[0] if len(wrong) == 1 else wrong}')
