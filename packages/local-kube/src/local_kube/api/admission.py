"""Admission of Secrets and Services."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING

from local_kube.errors import ApiError

if TYPE_CHECKING:
    from local_kube.json_files import Document


def admit_secret(secret: Document) -> Document:
    """Return a Secret with `stringData` merged into `data`; raise ApiError if `data` is not base64."""
    plain = secret.get("stringData") or {}
    data = {
        **(secret.get("data") or {}),
        **{name: base64.b64encode(text.encode()).decode() for name, text in plain.items()},
    }
    for name, text in data.items():
        try:
            base64.b64decode(text, validate=True)
        except (binascii.Error, TypeError, ValueError) as error:
            raise ApiError(400, f"Secret in version v1 cannot be handled: data.{name} is not base64") from error
    rest = {name: value for name, value in secret.items() if name != "stringData"}
    return {"type": "Opaque", **rest, "data": data}


def admit_service(service: Document) -> Document:
    """Return a complete Service; raise ApiError unless it is headless, because the cluster has no network."""
    spec = {"type": "ClusterIP", "sessionAffinity": "None", **(service.get("spec") or {})}
    if spec["type"] != "ClusterIP" or spec.get("clusterIP") != "None":
        name = service["metadata"]["name"]
        raise ApiError(
            422, f'Service "{name}" is invalid: spec.clusterIP: the local cluster has headless Services only: "None"'
        )
    return {**service, "spec": {**spec, "clusterIPs": ["None"]}, "status": {"loadBalancer": {}}}
