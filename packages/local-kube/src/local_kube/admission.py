"""What a pod must be to be let in, and what the cluster fills in."""

from __future__ import annotations

import re
import secrets
import uuid
from typing import Any

from local_kube.quantities import amount
from local_kube.records import Document, now
from local_kube.refusals import RefusalError

SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
LONGEST_NAME = 253
SPEC_DEFAULTS: Document = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
    "enableServiceLinks": True,
}
CONTAINER_DEFAULTS: Document = {
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
    "imagePullPolicy": "IfNotPresent",
    "resources": {},
}
MUTABLE = ("activeDeadlineSeconds", "terminationGracePeriodSeconds", "tolerations")


def admitted(pod: Document, namespace: str) -> Document:
    """A new pod, complete; or RefusalError with all that is wrong with it."""
    metadata = {name: value for name, value in (pod.get("metadata") or {}).items() if value is not None}
    metadata["name"] = generated_name(metadata)
    if metadata.setdefault("namespace", namespace) != namespace:
        raise RefusalError(400, "the namespace of the provided object does not match the namespace sent on the request")
    spec = {**SPEC_DEFAULTS, **{name: value for name, value in (pod.get("spec") or {}).items() if value is not None}}
    if wrong := [*wrong_metadata(metadata), *_wrong_spec(spec)]:
        name = metadata.get("name", "")
        raise RefusalError(422, f'Pod "{name}" is invalid: {wrong[0] if len(wrong) == 1 else wrong}')
    for kind in ("initContainers", "containers"):
        if kind in spec:
            spec[kind] = [{**CONTAINER_DEFAULTS, **container} for container in spec[kind]]
    metadata |= {"uid": str(uuid.uuid4()), "creationTimestamp": now(), "resourceVersion": "0"}
    status = {"phase": "Pending", "qosClass": _quality(spec["containers"])}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def changed(pod: Document, wanted: Document) -> Document:
    """A pod after a client's change: what the cluster owns stays, what may not change is refused."""
    metadata, spec = dict(wanted.get("metadata") or {}), wanted.get("spec") or {}
    for name in ("name", "namespace", "uid", "creationTimestamp"):
        if metadata.get(name, pod["metadata"][name]) != pod["metadata"][name]:
            raise RefusalError(422, f'Pod "{pod["metadata"]["name"]}" is invalid: metadata.{name}: field is immutable')
    version = metadata.get("resourceVersion", pod["metadata"]["resourceVersion"])
    if version != pod["metadata"]["resourceVersion"]:
        raise RefusalError(
            409,
            f'Operation cannot be fulfilled on pods "{pod["metadata"]["name"]}": the object has been modified; '
            "please apply your changes to the latest version and try again",
        )
    if _fixed(spec) != _fixed(pod["spec"]):
        raise RefusalError(
            422,
            f'Pod "{pod["metadata"]["name"]}" is invalid: spec: Forbidden: pod updates may not change fields other '
            f"than {', '.join(f'`spec.{name}`' for name in MUTABLE)}",
        )
    if wrong := list(wrong_metadata(metadata)):
        raise RefusalError(422, f'Pod "{pod["metadata"]["name"]}" is invalid: {wrong[0]}')
    kept = ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")
    metadata |= {name: pod["metadata"][name] for name in kept if name in pod["metadata"]}
    return {**pod, "metadata": metadata, "spec": spec}


def generated_name(metadata: Document) -> str:
    """The name of a new object: the given one, or one that begins as it says."""
    name, beginning = metadata.get("name"), metadata.get("generateName")
    return str(name or (beginning + secrets.token_hex(3)[:5] if beginning else ""))


def wrong_metadata(metadata: Document) -> list[str]:
    """What is wrong with the name and labels of a new object."""
    wrong = []
    name = metadata.get("name")
    if not name:
        wrong.append("metadata.name: Required value: name or generateName is required")
    elif len(name) > LONGEST_NAME or not SUBDOMAIN.fullmatch(name):
        wrong.append(f'metadata.name: Invalid value: "{name}": a lowercase RFC 1123 subdomain is required')
    for number, owner in enumerate(metadata.get("ownerReferences") or []):
        wrong += [
            f"metadata.ownerReferences[{number}].{field}: Required value"
            for field in ("apiVersion", "kind", "name", "uid")
            if not isinstance(owner, dict) or not owner.get(field)
        ]
    for key, value in (metadata.get("labels") or {}).items():
        if not isinstance(value, str) or not LABEL_VALUE.fullmatch(value):
            wrong.append(
                f'metadata.labels: Invalid value: "{value}": a valid label must be 63 characters or less ({key})'
            )
    return wrong


def _wrong_spec(spec: Document) -> list[str]:
    if not spec.get("containers"):
        return ["spec.containers: Required value"]
    wrong: list[str] = []
    names: set[str] = set()
    volumes = {volume.get("name") for volume in spec.get("volumes") or []}
    for kind in ("initContainers", "containers"):
        for number, container in enumerate(spec.get(kind) or []):
            where = f"spec.{kind}[{number}]"
            name = container.get("name") or ""
            if not LABEL.fullmatch(name):
                wrong.append(f'{where}.name: Invalid value: "{name}": a lowercase RFC 1123 label is required')
            elif name in names:
                wrong.append(f'{where}.name: Duplicate value: "{name}"')
            names.add(name)
            wrong += _wrong_container(container, where, volumes)
    if spec["restartPolicy"] not in {"Always", "OnFailure", "Never"}:
        wrong.append(f'spec.restartPolicy: Unsupported value: "{spec["restartPolicy"]}"')
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and (not isinstance(deadline, int) or deadline < 1):
        wrong.append(f"spec.activeDeadlineSeconds: Invalid value: {deadline}: must be greater than or equal to 1")
    return wrong


def _wrong_container(container: Document, where: str, volumes: set[Any]) -> list[str]:
    wrong = [
        f'{where}.volumeMounts: Not found: "{mount.get("name")}"'
        for mount in container.get("volumeMounts") or []
        if mount.get("name") not in volumes
    ]
    wrong += [
        f"{where}.env[{number}].name: Required value"
        for number, entry in enumerate(container.get("env") or [])
        if not entry.get("name")
    ]
    for kind, quantities in (container.get("resources") or {}).items():
        for resource, quantity in quantities.items() if isinstance(quantities, dict) else ():
            try:
                amount(quantity)
            except ValueError as error:
                wrong.append(f'{where}.resources.{kind}.{resource}: Invalid value: "{quantity}": {error}')
    return wrong


def _quality(containers: list[Document]) -> str:
    resources = [container.get("resources") or {} for container in containers]
    if not any(kind.get("requests") or kind.get("limits") for kind in resources):
        return "BestEffort"
    exact = all({"cpu", "memory"} <= set(kind.get("limits") or {}) for kind in resources)
    same = all((kind.get("requests") or kind.get("limits")) == kind.get("limits") for kind in resources)
    return "Guaranteed" if exact and same else "Burstable"


def _fixed(spec: Document) -> Document:
    return {name: value for name, value in spec.items() if name not in MUTABLE and value not in (None, [], {})}
