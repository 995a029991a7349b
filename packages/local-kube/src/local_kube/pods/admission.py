"""Admission of pods: validation, defaults, and the changes that clients may make."""

from __future__ import annotations

import re
import uuid
from typing import TYPE_CHECKING, Any

from local_kube.errors import ApiError
from local_kube.formats import now, parse_quantity
from local_kube.kinds import metadata_errors, name_of

if TYPE_CHECKING:
    from local_kube.json_files import Document

LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
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
IMMUTABLE_METADATA = ("name", "namespace", "uid")
SERVER_METADATA = (*IMMUTABLE_METADATA, "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")
MUTABLE_SPEC = ("activeDeadlineSeconds", "terminationGracePeriodSeconds", "tolerations")


def admit(pod: Document, namespace: str) -> Document:
    """Return a new pod with every default; raise ApiError with all the reasons to reject it."""
    metadata = {name: value for name, value in (pod.get("metadata") or {}).items() if value is not None}
    metadata["name"] = name_of(metadata)
    if metadata.setdefault("namespace", namespace) != namespace:
        raise ApiError(400, "the namespace of the provided object does not match the namespace sent on the request")
    spec = {**SPEC_DEFAULTS, **{name: value for name, value in (pod.get("spec") or {}).items() if value is not None}}
    if errors := [*metadata_errors(metadata), *_spec_errors(spec)]:
        raise ApiError(422, f'Pod "{metadata["name"]}" is invalid: {errors[0] if len(errors) == 1 else errors}')
    for kind in ("initContainers", "containers"):
        if kind in spec:
            spec[kind] = [{**CONTAINER_DEFAULTS, **container} for container in spec[kind]]
    metadata |= {"uid": str(uuid.uuid4()), "creationTimestamp": now(), "resourceVersion": "0"}
    status = {"phase": "Pending", "qosClass": _qos_class(spec["containers"])}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def admit_change(pod: Document, wanted: Document) -> Document:
    """Return a pod after a client's change; raise ApiError if the change concerns an immutable field."""
    metadata, spec = dict(wanted.get("metadata") or {}), wanted.get("spec") or {}
    errors = [
        f"metadata.{name}: field is immutable"
        for name in IMMUTABLE_METADATA
        if metadata.get(name, pod["metadata"][name]) != pod["metadata"][name]
    ]
    if _immutable_part(spec) != _immutable_part(pod["spec"]):
        mutable = ", ".join(f"`spec.{name}`" for name in MUTABLE_SPEC)
        errors.append(f"spec: Forbidden: pod updates may not change fields other than {mutable}")
    if errors := errors or metadata_errors(metadata):
        raise ApiError(422, f'Pod "{pod["metadata"]["name"]}" is invalid: {errors[0]}')
    metadata |= {name: pod["metadata"][name] for name in SERVER_METADATA if name in pod["metadata"]}
    return {**pod, "metadata": metadata, "spec": spec}


def _spec_errors(spec: Document) -> list[str]:
    if not spec.get("containers"):
        return ["spec.containers: Required value"]
    errors: list[str] = []
    names: set[str] = set()
    volumes = {volume.get("name") for volume in spec.get("volumes") or []}
    for number, volume in enumerate(spec.get("volumes") or []):
        errors += _volume_errors(volume, f"spec.volumes[{number}]")
    for kind in ("initContainers", "containers"):
        for number, container in enumerate(spec.get(kind) or []):
            field = f"spec.{kind}[{number}]"
            name = container.get("name") or ""
            if not LABEL.fullmatch(name):
                errors.append(f'{field}.name: Invalid value: "{name}": a lowercase RFC 1123 label is required')
            elif name in names:
                errors.append(f'{field}.name: Duplicate value: "{name}"')
            names.add(name)
            errors += _container_errors(container, field, volumes)
    if spec["restartPolicy"] not in {"Always", "OnFailure", "Never"}:
        errors.append(f'spec.restartPolicy: Unsupported value: "{spec["restartPolicy"]}"')
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and (not isinstance(deadline, int) or deadline < 1):
        errors.append(f"spec.activeDeadlineSeconds: Invalid value: {deadline}: must be greater than or equal to 1")
    return errors


def _container_errors(container: Document, field: str, volumes: set[Any]) -> list[str]:
    errors = [
        f'{field}.volumeMounts: Not found: "{mount.get("name")}"'
        for mount in container.get("volumeMounts") or []
        if mount.get("name") not in volumes
    ]
    errors += [
        _outside(f"{field}.volumeMounts.subPath", mount["subPath"])
        for mount in container.get("volumeMounts") or []
        if _leads_out(mount.get("subPath") or "")
    ]
    errors += [
        f"{field}.env[{number}].name: Required value"
        for number, entry in enumerate(container.get("env") or [])
        if not entry.get("name")
    ]
    for kind, quantities in (container.get("resources") or {}).items():
        for resource, quantity in quantities.items() if isinstance(quantities, dict) else ():
            try:
                parse_quantity(quantity)
            except ValueError as error:
                errors.append(f'{field}.resources.{kind}.{resource}: Invalid value: "{quantity}": {error}')
    return errors


def _volume_errors(volume: Document, field: str) -> list[str]:
    """Names and paths become parts of paths of this machine, so none may lead out of the pod's folder."""
    name, errors = volume.get("name") or "", []
    if not LABEL.fullmatch(name):
        errors.append(f'{field}.name: Invalid value: "{name}": a lowercase RFC 1123 label is required')
    for kind in ("secret", "configMap"):
        items = (volume.get(kind) or {}).get("items") or []
        errors += [_outside(f"{field}.{kind}.items", item["path"]) for item in items if _leads_out(item["path"])]
    return errors


def _leads_out(path: str) -> bool:
    return path.startswith("/") or ".." in path.split("/")


def _outside(field: str, path: str) -> str:
    return f'{field}: Invalid value: "{path}": must be a relative path without ".."'


def _qos_class(containers: list[Document]) -> str:
    resources = [container.get("resources") or {} for container in containers]
    if not any(kind.get("requests") or kind.get("limits") for kind in resources):
        return "BestEffort"
    limited = all({"cpu", "memory"} <= set(kind.get("limits") or {}) for kind in resources)
    equal = all((kind.get("requests") or kind.get("limits")) == kind.get("limits") for kind in resources)
    return "Guaranteed" if limited and equal else "Burstable"


def _immutable_part(spec: Document) -> Document:
    return {name: value for name, value in spec.items() if name not in MUTABLE_SPEC and value not in (None, [], {})}
