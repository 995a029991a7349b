"""The Secrets and ConfigMaps that a pod refers to, as variables or as files."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from local_kube.json_files import Document

KINDS = {"secretKeyRef": "secret", "secretRef": "secret", "secret": "secret"}
"""The kind of object behind each type of reference; all others are ConfigMaps."""


class MissingReferenceError(Exception):
    """A pod refers to something that does not exist."""


@dataclass(frozen=True, slots=True)
class References:
    """The objects to which one pod can refer: those of its namespace."""

    namespace: str
    find: Callable[[str, str, str], Document | None]
    """Returns an object by kind, namespace and name."""

    def data(self, reference: str, source: Document) -> Mapping[str, bytes] | None:
        """Return the entries of an object; None if it is missing and optional."""
        kind, name = KINDS.get(reference, "configmap"), source.get("name") or source.get("secretName") or ""
        found = self.find(kind, self.namespace, name)
        if found is not None:
            return decoded_data(found)
        if source.get("optional"):
            return None
        raise MissingReferenceError(f'{kind} "{name}" not found')

    def value(self, reference: str, source: Document) -> str | None:
        """Return one entry as the value of a variable; None if it is missing and optional."""
        data = self.data(reference, source)
        if data is None:
            return None
        if source["key"] in data:
            return data[source["key"]].decode(errors="replace")
        if source.get("optional"):
            return None
        where = f"{KINDS.get(reference, 'configmap')} {self.namespace}/{source['name']}"
        raise MissingReferenceError(f"couldn't find key {source['key']} in {where}")

    def files(self, volume: Document) -> Mapping[str, bytes]:
        """Return the files of a Secret or ConfigMap volume, by their paths in it."""
        reference = "secret" if "secret" in volume else "configMap"
        source = volume[reference]
        data = self.data(reference, source) or {}
        if not source.get("items"):
            return data
        missing = [item["key"] for item in source["items"] if item["key"] not in data]
        if missing and not source.get("optional"):
            raise MissingReferenceError(f"references non-existent config key: {missing[0]}")
        return {item["path"]: data[item["key"]] for item in source["items"] if item["key"] in data}


def decoded_data(document: Document) -> dict[str, bytes]:
    """Return the entries of a Secret or ConfigMap as bytes."""
    data = document.get("data") or {}
    if document["kind"] == "ConfigMap":
        plain = {name: text.encode() for name, text in data.items()}
        return plain | {name: base64.b64decode(text) for name, text in (document.get("binaryData") or {}).items()}
    return {name: base64.b64decode(text) for name, text in data.items()}
