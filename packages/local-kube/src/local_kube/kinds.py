"""The kinds of object that the cluster serves, and the names, labels and owners of new objects."""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from local_kube.json_files import Document

SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
MAX_NAME_LENGTH = 253


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of object."""

    kind: str
    api_version: str = "v1"

    @property
    def singular(self) -> str:
        """The name of one object in requests and messages."""
        return self.kind.lower()

    @property
    def plural(self) -> str:
        """The name of several objects, as in a path."""
        return f"{self.singular}s"

    @property
    def path(self) -> str:
        """The path of the kind's API group."""
        return f"/apis/{self.api_version}" if "/" in self.api_version else f"/api/{self.api_version}"

    def list_of(self, items: list[Document]) -> Document:
        """Return a list object."""
        return {"kind": f"{self.kind}List", "apiVersion": self.api_version, "metadata": {}, "items": items}


POD, EVENT, NODE, NAMESPACE = Kind("Pod"), Kind("Event"), Kind("Node"), Kind("Namespace")
SECRET, CONFIG_MAP, SERVICE = Kind("Secret"), Kind("ConfigMap"), Kind("Service")
JOB = Kind("Job", "batch/v1")
STORED_KINDS = (SECRET, CONFIG_MAP, SERVICE, JOB)
"""The kinds other than pods that clients can create."""


def name_of(metadata: Document) -> str:
    """Return the name of a new object: `name`, or a random one that begins with `generateName`."""
    name, prefix = metadata.get("name"), metadata.get("generateName")
    return str(name or (prefix + secrets.token_hex(3)[:5] if prefix else ""))


def metadata_errors(metadata: Document) -> list[str]:
    """Return the reasons to reject the name, owners or labels of an object."""
    errors = []
    name = metadata.get("name")
    if not name:
        errors.append("metadata.name: Required value: name or generateName is required")
    elif len(name) > MAX_NAME_LENGTH or not SUBDOMAIN.fullmatch(name):
        errors.append(f'metadata.name: Invalid value: "{name}": a lowercase RFC 1123 subdomain is required')
    for number, owner in enumerate(metadata.get("ownerReferences") or []):
        errors += [
            f"metadata.ownerReferences[{number}].{field}: Required value"
            for field in ("apiVersion", "kind", "name", "uid")
            if not isinstance(owner, dict) or not owner.get(field)
        ]
    for key, value in (metadata.get("labels") or {}).items():
        if not isinstance(value, str) or not LABEL_VALUE.fullmatch(value):
            errors.append(
                f'metadata.labels: Invalid value: "{value}": a valid label must be 63 characters or less ({key})'
            )
    return errors
