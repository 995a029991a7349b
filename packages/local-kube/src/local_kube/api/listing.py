"""Reading objects of one kind: get, list and watch."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

from starlette.responses import JSONResponse, Response, StreamingResponse

from local_kube.api import tables
from local_kube.api.selectors import by_fields, by_labels
from local_kube.errors import ApiError, not_found
from local_kube.state.store import ExpiredError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from starlette.requests import Request

    from local_kube.api.tables import Columns
    from local_kube.json_files import Document
    from local_kube.kinds import Kind
    from local_kube.state.store import Store

MAX_WATCH_SECONDS = 1800.0
"""How long a watch lasts without `timeoutSeconds`, as in Kubernetes; clients then open a new one."""
WATCH_CHECK_SECONDS = 1.0
"""How often a watch without changes checks whether its time is over."""


class Listing:
    """Answers the GET requests for one kind."""

    def __init__(self, store: Store, kind: Kind, columns: Columns, objects: Callable[[], list[Document]]) -> None:
        self._store = store
        self._kind = kind
        self._columns = columns
        self._objects = objects

    async def get_many(self, request: Request) -> Response:
        """Return a list, or a stream of changes for a watch."""
        if request.query_params.get("watch", "").lower() in {"1", "true"}:
            return StreamingResponse(self._watch(request), media_type="application/json")
        found, version = self.selected(request), str(self._store.version)
        if tables.is_requested_by(request):
            return JSONResponse(self._columns.table(found, version))
        return JSONResponse({**self._kind.list_of(found), "metadata": {"resourceVersion": version}})

    async def get_one(self, request: Request) -> Response:
        """Return the object that the path names."""
        name, namespace = request.path_params["name"], request.path_params.get("namespace")
        for document in self._objects():
            metadata = document["metadata"]
            if metadata["name"] == name and namespace in (None, metadata.get("namespace")):
                return self.respond_with(request, document)
        raise not_found(self._kind.plural, name)

    def respond_with(self, request: Request, document: Document) -> Response:
        """Return one object, as a table if the request asks for one."""
        return JSONResponse(self._rendered(request, document))

    def _rendered(self, request: Request, document: Document) -> Document:
        if tables.is_requested_by(request):
            return self._columns.table([document], document["metadata"]["resourceVersion"])
        return document

    def selected(self, request: Request) -> list[Document]:
        """Return the objects that match the request's namespace and selectors."""
        matches = _selector(request)
        return [document for document in self._objects() if matches(document)]

    async def _watch(self, request: Request) -> AsyncIterator[str]:
        matches = _selector(request)
        clock = asyncio.get_running_loop().time
        until = clock() + float(request.query_params.get("timeoutSeconds") or MAX_WATCH_SECONDS)
        version = int(request.query_params.get("resourceVersion") or "0")
        if version == 0:
            version = self._store.version
            for document in self.selected(request):
                yield _watch_event("ADDED", self._rendered(request, document))
        while (left := until - clock()) > 0:
            try:
                changes = self._store.since(version)
            except ExpiredError:
                expired = ApiError(410, f"too old resource version: {version} ({self._store.version})")
                yield _watch_event("ERROR", expired.status)
                return
            for change in changes:
                version = change.version
                if change.kind == self._kind.plural and matches(change.object):
                    yield _watch_event(change.type, self._rendered(request, change.object))
            if not changes:
                await self._store.wait(min(WATCH_CHECK_SECONDS, left))


def _selector(request: Request) -> Callable[[Document], bool]:
    namespace = request.path_params.get("namespace")
    labels = by_labels(request.query_params.get("labelSelector", ""))
    fields = by_fields(request.query_params.get("fieldSelector", ""))

    def matches(document: Document) -> bool:
        in_namespace = namespace is None or document["metadata"]["namespace"] == namespace
        return in_namespace and labels(document) and fields(document)

    return matches


def _watch_event(kind: str, document: object) -> str:
    return json.dumps({"type": kind, "object": document}) + "\n"
