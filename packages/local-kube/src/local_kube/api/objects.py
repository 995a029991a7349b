"""Requests for Secrets, ConfigMaps, Services and Jobs, and the admission of Secrets and Services."""

from __future__ import annotations

import base64
import binascii
import re
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from local_kube.api import tables
from local_kube.api.listing import Listing
from local_kube.api.requests import apply_patch, body_of, check_version, media_type_of
from local_kube.errors import ApiError, not_found
from local_kube.formats import now
from local_kube.kinds import metadata_errors, name_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request

    from local_kube.json_files import Document
    from local_kube.kinds import Kind
    from local_kube.state.owner_references import GarbageCollector
    from local_kube.state.store import Objects, Store

KEY = re.compile(r"[-._a-zA-Z0-9]+")
"""What Kubernetes allows as keys of Secrets and ConfigMaps, which become names of files."""
SERVER_FIELDS = ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp")
"""The metadata that clients cannot change."""


@dataclass(frozen=True, slots=True)
class Rules:
    """How objects of one kind are admitted, changed and deleted."""

    admit: Callable[[Document], Document] = lambda document: document
    """Returns a new object, completed; raises ApiError to reject it."""
    admit_change: Callable[[Document, Document], Document] | None = None
    """Returns a changed object, from the stored and the requested one; by default, `admit` decides."""
    saved: Callable[[Document], None] = lambda _: None
    """Called after an object was created or changed, before the client gets its response."""
    policy: str = "Background"
    """The propagation policy of deletions that name none."""


class ObjectsApi:
    """Creates, reads, changes and deletes objects of one kind."""

    def __init__(self, store: Store, objects: Objects, collector: GarbageCollector, kind: Kind, rules: Rules) -> None:
        self._store = store
        self._objects = objects
        self._collector = collector
        self._kind = kind
        self._rules = rules
        self._listing = Listing(store, kind, tables.COLUMNS[kind], lambda: objects.all(kind.singular))

    @property
    def routes(self) -> list[Route]:
        """The routes of the kind."""
        many = f"{self._kind.path}/namespaces/{{namespace}}/{self._kind.plural}"
        one = f"{many}/{{name}}"
        return [
            Route(f"{self._kind.path}/{self._kind.plural}", self._listing.get_many, methods=["GET"]),
            Route(many, self._listing.get_many, methods=["GET"]),
            Route(many, self.create, methods=["POST"]),
            Route(one, self._listing.get_one, methods=["GET"]),
            Route(f"{one}/status", self._listing.get_one, methods=["GET"]),
            Route(one, self.patch, methods=["PATCH"]),
            Route(one, self.replace, methods=["PUT"]),
            Route(one, self.delete, methods=["DELETE"]),
        ]

    async def create(self, request: Request) -> Response:
        """POST an object."""
        document = await body_of(request)
        namespace = request.path_params["namespace"]
        metadata = {name: value for name, value in (document.get("metadata") or {}).items() if value is not None}
        name = name_of(metadata)
        if errors := metadata_errors({**metadata, "name": name}):
            raise ApiError(422, f'{self._kind.kind} "{name}" is invalid: {errors[0]}')
        if self._objects.find(self._kind.singular, namespace, name):
            raise ApiError(409, f'{self._kind.plural} "{name}" already exists', "AlreadyExists")
        metadata |= {"name": name, "namespace": namespace, "uid": str(uuid.uuid4()), "creationTimestamp": now()}
        return self._save(request, self._rules.admit({**document, "metadata": metadata}), "ADDED", 201)

    async def patch(self, request: Request) -> Response:
        """PATCH an object."""
        patch = await body_of(request)
        return self._change(request, apply_patch(self._object(request), patch, media_type_of(request)))

    async def replace(self, request: Request) -> Response:
        """PUT a whole object."""
        return self._change(request, await body_of(request))

    async def delete(self, request: Request) -> Response:
        """DELETE an object, and its dependents as the propagation policy requires."""
        options = await body_of(request, optional=True)
        document = self._object(request)
        requested = request.query_params.get("propagationPolicy") or options.get("propagationPolicy")
        self._collector.delete(self._kind, document, str(requested or self._rules.policy))
        left = self._find(document)
        return JSONResponse(left or {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"})

    def _change(self, request: Request, wanted: Document) -> Response:
        stored = self._object(request)
        metadata = dict(wanted.get("metadata") or {})
        check_version(self._kind.plural, stored["metadata"], metadata)
        metadata |= {name: stored["metadata"][name] for name in SERVER_FIELDS if name in stored["metadata"]}
        if errors := metadata_errors(metadata):
            raise ApiError(422, f'{self._kind.kind} "{metadata["name"]}" is invalid: {errors[0]}')
        document = {**wanted, "metadata": metadata}
        rules = self._rules
        admitted = rules.admit_change(stored, document) if rules.admit_change else rules.admit(document)
        return self._save(request, admitted, "MODIFIED", 200)

    def _save(self, request: Request, document: Document, change: str, code: int) -> Response:
        document |= {"apiVersion": self._kind.api_version, "kind": self._kind.kind}
        if "dryRun" in request.query_params:
            return JSONResponse(document, code)
        self._store.publish(self._kind.plural, change, document)
        try:
            self._objects.save(document)
        except OSError as error:
            raise ApiError(500, f"the object cannot be saved: {error.strerror}") from error
        self._rules.saved(document)
        return JSONResponse(self._find(document) or document, code)

    def _object(self, request: Request) -> Document:
        name = request.path_params["name"]
        found = self._objects.find(self._kind.singular, request.path_params["namespace"], name)
        if found is None:
            raise not_found(self._kind.plural, name)
        return found

    def _find(self, document: Document) -> Document | None:
        """Return the object as it is stored now; None if it is gone."""
        metadata = document["metadata"]
        return self._objects.find(self._kind.singular, metadata["namespace"], metadata["name"])


def admit_config_map(document: Document) -> Document:
    """Return a ConfigMap; raise ApiError if one of its keys cannot be the name of a file."""
    for key in [*(document.get("data") or {}), *(document.get("binaryData") or {})]:
        _check_key(document, key)
    return document


def admit_secret(secret: Document) -> Document:
    """Return a Secret with `stringData` merged into `data`; raise ApiError if `data` is not base64."""
    plain = secret.get("stringData") or {}
    data = {
        **(secret.get("data") or {}),
        **{name: base64.b64encode(text.encode()).decode() for name, text in plain.items()},
    }
    for name, text in data.items():
        _check_key(secret, name)
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


def _check_key(document: Document, key: str) -> None:
    if not KEY.fullmatch(key) or key.startswith(".."):
        name, rule = document["metadata"]["name"], "a valid key consists of letters, digits, '-', '_' and '.'"
        raise ApiError(422, f'"{name}" is invalid: data: Invalid value: "{key}": {rule}')
