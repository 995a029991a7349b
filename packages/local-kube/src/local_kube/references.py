"""What a pod takes from other objects: Secrets and ConfigMaps, as variables or as files."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from local_kube.records import Document

KINDS = {"secretKeyRef": "secret", "secretRef": "secret", "secret": "secret"}
"""Which of the two a reference means; whatever is not named here is a ConfigMap."""


class MissingReferenceError(Exception):
    """Something that a pod refers to is not there."""


@dataclass(frozen=True, slots=True)
class References:
    """The objects that one pod can refer to: those of its namespace."""

    namespace: str
    find: Callable[[str, str, str], Document | None]
    """An object by kind, namespace and name."""

    def data(self, reference: str, source: Document) -> Mapping[str, bytes] | None:
        """All that an object holds; None if it is not there and need not be."""
        kind, name = KINDS.get(reference, "configmap"), source.get("name") or source.get("secretName") or ""
        found = self.find(kind, self.namespace, name)
        if found is not None:
            return content(found)
        if source.get("optional"):
            return None
        raise MissingReferenceError(f'{kind} "{name}" not found')

    def value(self, reference: str, source: Document) -> str | None:
        """One entry as a variable's value; None if it is not there and need not be."""
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
        """The files of a volume that is made of a Secret or a ConfigMap, by their paths in it."""
        reference = "secret" if "secret" in volume else "configMap"
        source = volume[reference]
        data = self.data(reference, source) or {}
        if not source.get("items"):
            return data
        lacking = [item["key"] for item in source["items"] if item["key"] not in data]
        if lacking and not source.get("optional"):
            raise MissingReferenceError(f"references non-existent config key: {lacking[0]}")
        return {item["path"]: data[item["key"]] for item in source["items"] if item["key"] in data}


def content(document: Document) -> dict[str, bytes]:
    """What a Secret or a ConfigMap holds, as bytes."""
    encoded = document.get("data") or {}
    if document["kind"] == "ConfigMap":
        plain = {name: text.encode() for name, text in encoded.items()}
        return plain | {name: base64.b64decode(text) for name, text in (document.get("binaryData") or {}).items()}
    return {name: base64.b64decode(text) for name, text in encoded.items()}
