"""Secrets, ConfigMaps, Services and Jobs, each in a file of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from local_kube.json_files import Document, read_json, write_json

if TYPE_CHECKING:
    from pathlib import Path


class Objects:
    """Every object that is not a pod, in memory and on disk."""

    def __init__(self, root: Path) -> None:
        self._root = root / "objects"
        self._root.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._objects: dict[tuple[str, str, str], Document] = {}
        for file in self._root.glob("*.json"):
            if document := read_json(file):
                self._objects[_key(document)] = document

    def find(self, kind: str, namespace: str, name: str) -> Document | None:
        """Return one object, or None."""
        return self._objects.get((kind, namespace, name))

    def all(self, kind: str) -> list[Document]:
        """Return every object of a kind."""
        return [document for key, document in self._objects.items() if key[0] == kind]

    def save(self, document: Document) -> None:
        """Add or replace an object."""
        write_json(self._file(document), document)
        self._objects[_key(document)] = document

    def remove(self, document: Document) -> None:
        """Remove an object."""
        self._file(document).unlink(missing_ok=True)
        del self._objects[_key(document)]

    def _file(self, document: Document) -> Path:
        return self._root / f"{document['metadata']['uid']}.json"


def _key(document: Document) -> tuple[str, str, str]:
    return document["kind"].lower(), document["metadata"]["namespace"], document["metadata"]["name"]
