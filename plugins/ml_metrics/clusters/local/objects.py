"""Secrets and ConfigMaps: plain objects that pods refer to, each in a file of its own."""

from __future__ import annotations

import base64
import binascii
import uuid
from typing import TYPE_CHECKING

from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ml_metrics.clusters.local import patches, tables
from ml_metrics.clusters.local.admission import wrong_metadata
from ml_metrics.clusters.local.api import body_of
from ml_metrics.clusters.local.listing import Listing
from ml_metrics.clusters.local.records import Document, now, read_record, write_record
from ml_metrics.clusters.local.refusals import RefusalError, not_found

if TYPE_CHECKING:
    from pathlib import Path

    from starlette.requests import Request

    from ml_metrics.clusters.local.store import Store

KINDS = {"secret": "Secret", "configmap": "ConfigMap"}


class Objects:
    """Every Secret and ConfigMap."""

    def __init__(self, root: Path) -> None:
        self._root = root / "objects"
        self._root.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._objects: dict[tuple[str, str, str], Document] = {}
        for file in self._root.glob("*.json"):
            if document := read_record(file):
                self._objects[_key(document)] = document

    def find(self, kind: str, namespace: str, name: str) -> Document | None:
        """One object, or None."""
        return self._objects.get((kind, namespace, name))

    def all(self, kind: str) -> list[Document]:
        """Every object of a kind."""
        return [document for key, document in self._objects.items() if key[0] == kind]

    def keep(self, document: Document) -> None:
        """Add or replace an object."""
        write_record(self._file(document), document)
        self._objects[_key(document)] = document

    def forget(self, document: Document) -> None:
        """Remove an object."""
        self._file(document).unlink(missing_ok=True)
        del self._objects[_key(document)]

    def _file(self, document: Document) -> Path:
        return self._root / f"{document['metadata']['uid']}.json"


class ObjectsApi:
    """The requests about one of the two kinds."""

    def __init__(self, store: Store, objects: Objects, kind: str) -> None:
        self._store = store
        self._objects = objects
        self._kind = kind
        self._listing = Listing(store, f"{kind}s", tables.OBJECTS, lambda: objects.all(kind), KINDS[kind])

    @property
    def routes(self) -> list[Route]:
        """The paths that are served."""
        many = f"/api/v1/namespaces/{{namespace}}/{self._kind}s"
        return [
            Route(f"/api/v1/{self._kind}s", self._listing.answer, methods=["GET"]),
            Route(many, self._listing.answer, methods=["GET"]),
            Route(many, self.create, methods=["POST"]),
            Route(f"{many}/{{name}}", self._listing.answer_named, methods=["GET"]),
            Route(f"{many}/{{name}}", self.patch, methods=["PATCH"]),
            Route(f"{many}/{{name}}", self.replace, methods=["PUT"]),
            Route(f"{many}/{{name}}", self.delete, methods=["DELETE"]),
        ]

    async def create(self, request: Request) -> Response:
        """POST."""
        document = await body_of(request)
        metadata = document.setdefault("metadata", {})
        namespace = request.path_params["namespace"]
        if wrong := wrong_metadata(metadata):
            raise RefusalError(422, f'{KINDS[self._kind]} "{metadata.get("name", "")}" is invalid: {wrong[0]}')
        if self._objects.find(self._kind, namespace, metadata["name"]):
            raise RefusalError(409, f'{self._kind}s "{metadata["name"]}" already exists', "AlreadyExists")
        metadata |= {"namespace": namespace, "uid": str(uuid.uuid4()), "creationTimestamp": now()}
        return self._keep(document, "ADDED", 201)

    async def patch(self, request: Request) -> Response:
        """PATCH in any of Kubernetes' three ways."""
        media_type = request.headers.get("content-type", "").partition(";")[0].strip()
        patch = await body_of(request)
        return self._change(request, patches.patched(self._named(request), patch, media_type))

    async def replace(self, request: Request) -> Response:
        """PUT."""
        return self._change(request, await body_of(request))

    async def delete(self, request: Request) -> Response:
        """DELETE."""
        document = self._named(request)
        self._objects.forget(document)
        self._store.note(f"{self._kind}s", "DELETED", document)
        return JSONResponse({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"})

    def _change(self, request: Request, wanted: Document) -> Response:
        standing = self._named(request)["metadata"]
        kept = {name: standing[name] for name in ("name", "namespace", "uid", "creationTimestamp")}
        document = {**wanted, "metadata": {**(wanted.get("metadata") or {}), **kept}}
        return self._keep(document, "MODIFIED", 200)

    def _keep(self, document: Document, change: str, code: int) -> Response:
        document |= {"apiVersion": "v1", "kind": KINDS[self._kind]}
        if self._kind == "secret":
            _encode(document)
        self._store.note(f"{self._kind}s", change, document)
        try:
            self._objects.keep(document)
        except OSError as error:
            raise RefusalError(500, f"the object cannot be kept: {error.strerror}") from error
        return JSONResponse(document, code)

    def _named(self, request: Request) -> Document:
        name = request.path_params["name"]
        found = self._objects.find(self._kind, request.path_params["namespace"], name)
        if found is None:
            raise not_found(f"{self._kind}s", name)
        return found


def _encode(secret: Document) -> None:
    """Take in `stringData`, and make sure that `data` is what it should be."""
    data = secret.get("data") or {}
    plain = secret.pop("stringData", None) or {}
    secret["data"] = data | {name: base64.b64encode(text.encode()).decode() for name, text in plain.items()}
    secret.setdefault("type", "Opaque")
    for name, text in secret["data"].items():
        try:
            base64.b64decode(text, validate=True)
        except (binascii.Error, TypeError, ValueError) as error:
            raise RefusalError(400, f"Secret in version v1 cannot be handled: data.{name} is not base64") from error


def _key(document: Document) -> tuple[str, str, str]:
    return document["kind"].lower(), document["metadata"]["namespace"], document["metadata"]["name"]
