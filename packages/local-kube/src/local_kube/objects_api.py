"""The requests about one kind of object that is not a pod."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from local_kube import patches, tables
from local_kube.admission import generated_name, wrong_metadata
from local_kube.api import body_of
from local_kube.listing import Listing
from local_kube.records import now
from local_kube.refusals import RefusalError, not_found

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request

    from local_kube.garbage import Garbage
    from local_kube.kinds import Kind
    from local_kube.objects import Objects
    from local_kube.records import Document
    from local_kube.store import Store

OWNED_BY_THE_CLUSTER = ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp")


@dataclass(frozen=True, slots=True)
class Rules:
    """What objects of a kind must be, and what follows from them."""

    admitted: Callable[[Document], Document] = lambda document: document
    """A new object, complete; RefusalError if it may not be."""
    changed: Callable[[Document, Document], Document] | None = None
    """An object after a client's change, from what it was and what is wanted; by default, as if it were new."""
    kept: Callable[[Document], None] = lambda _: None
    """Called when an object has come or changed, before the client hears of it."""
    policy: str = "Background"
    """What happens to dependents where a client does not say."""


class ObjectsApi:
    """Create, read, change and delete objects of a kind."""

    def __init__(self, store: Store, objects: Objects, garbage: Garbage, kind: Kind, rules: Rules) -> None:
        self._store = store
        self._objects = objects
        self._garbage = garbage
        self._kind = kind
        self._rules = rules
        self._listing = Listing(store, kind, tables.COLUMNS[kind], lambda: objects.all(kind.one))

    @property
    def routes(self) -> list[Route]:
        """The paths that are served."""
        many = f"{self._kind.path}/namespaces/{{namespace}}/{self._kind.many}"
        return [
            Route(f"{self._kind.path}/{self._kind.many}", self._listing.answer, methods=["GET"]),
            Route(many, self._listing.answer, methods=["GET"]),
            Route(many, self.create, methods=["POST"]),
            Route(many, self.delete_many, methods=["DELETE"]),
            Route(f"{many}/{{name}}", self._listing.answer_named, methods=["GET"]),
            Route(f"{many}/{{name}}/status", self._listing.answer_named, methods=["GET"]),
            Route(f"{many}/{{name}}", self.patch, methods=["PATCH"]),
            Route(f"{many}/{{name}}", self.replace, methods=["PUT"]),
            Route(f"{many}/{{name}}", self.delete, methods=["DELETE"]),
        ]

    async def create(self, request: Request) -> Response:
        """POST."""
        document = await body_of(request)
        namespace = request.path_params["namespace"]
        metadata = {name: value for name, value in (document.get("metadata") or {}).items() if value is not None}
        name = generated_name(metadata)
        if wrong := wrong_metadata({**metadata, "name": name}):
            raise RefusalError(422, f'{self._kind.kind} "{name}" is invalid: {wrong[0]}')
        if self._objects.find(self._kind.one, namespace, name):
            raise RefusalError(409, f'{self._kind.many} "{name}" already exists', "AlreadyExists")
        metadata |= {"name": name, "namespace": namespace, "uid": str(uuid.uuid4()), "creationTimestamp": now()}
        return self._keep(request, self._rules.admitted({**document, "metadata": metadata}), "ADDED", 201)

    async def patch(self, request: Request) -> Response:
        """PATCH in any of Kubernetes' three ways."""
        media_type = request.headers.get("content-type", "").partition(";")[0].strip()
        patch = await body_of(request)
        return self._change(request, patches.patched(self._named(request), patch, media_type))

    async def replace(self, request: Request) -> Response:
        """PUT."""
        return self._change(request, await body_of(request))

    async def delete(self, request: Request) -> Response:
        """DELETE one object, and what belongs to it."""
        options = await body_of(request, optional=True)
        document = self._named(request)
        self._garbage.delete(self._kind, document, self._policy(request, options))
        left = self._objects.find(self._kind.one, *_place(document))
        return JSONResponse(left or {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"})

    async def delete_many(self, request: Request) -> Response:
        """DELETE what the selectors mean."""
        options = await body_of(request, optional=True)
        found = self._listing.selected(request)
        for document in found:
            self._garbage.delete(self._kind, document, self._policy(request, options))
        return JSONResponse(self._kind.list_of(found))

    def _policy(self, request: Request, options: Document) -> str:
        if (options.get("orphanDependents") or request.query_params.get("orphanDependents")) in {True, "true"}:
            return "Orphan"
        asked = request.query_params.get("propagationPolicy") or options.get("propagationPolicy")
        return str(asked or self._rules.policy)

    def _change(self, request: Request, wanted: Document) -> Response:
        standing = self._named(request)
        before, metadata = standing["metadata"], dict(wanted.get("metadata") or {})
        if metadata.get("resourceVersion", before["resourceVersion"]) != before["resourceVersion"]:
            raise RefusalError(
                409,
                f'Operation cannot be fulfilled on {self._kind.many} "{before["name"]}": the object has been '
                "modified; please apply your changes to the latest version and try again",
            )
        metadata |= {name: before[name] for name in OWNED_BY_THE_CLUSTER if name in before}
        if wrong := wrong_metadata(metadata):
            raise RefusalError(422, f'{self._kind.kind} "{before["name"]}" is invalid: {wrong[0]}')
        document = {**wanted, "metadata": metadata}
        rules = self._rules
        admitted = rules.changed(standing, document) if rules.changed else rules.admitted(document)
        return self._keep(request, admitted, "MODIFIED", 200)

    def _keep(self, request: Request, document: Document, change: str, code: int) -> Response:
        document |= {"apiVersion": self._kind.api_version, "kind": self._kind.kind}
        if "dryRun" in request.query_params:
            return JSONResponse(document, code)
        self._store.note(self._kind.many, change, document)
        try:
            self._objects.keep(document)
        except OSError as error:
            raise RefusalError(500, f"the object cannot be kept: {error.strerror}") from error
        self._rules.kept(document)
        return JSONResponse(self._objects.find(self._kind.one, *_place(document)) or document, code)

    def _named(self, request: Request) -> Document:
        name = request.path_params["name"]
        found = self._objects.find(self._kind.one, request.path_params["namespace"], name)
        if found is None:
            raise not_found(self._kind.many, name)
        return found


def _place(document: Document) -> tuple[str, str]:
    return document["metadata"]["namespace"], document["metadata"]["name"]
