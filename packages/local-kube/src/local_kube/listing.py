"""Lists and watches of one kind of object."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

from starlette.responses import JSONResponse, Response, StreamingResponse

from local_kube import tables
from local_kube.refusals import RefusalError, not_found
from local_kube.selectors import by_fields, by_labels
from local_kube.store import ExpiredError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from starlette.requests import Request

    from local_kube.kinds import Kind
    from local_kube.records import Document
    from local_kube.store import Store
    from local_kube.tables import Columns

LONGEST_WATCH = 1800.0
"""Seconds after which a watch ends by itself if the client names no time, as Kubernetes does; clients come again."""
STILL = 1.0
"""Seconds between two looks at whether a watch is over."""


class Listing:
    """What answers GET for many objects of a kind."""

    def __init__(self, store: Store, kind: Kind, columns: Columns, objects: Callable[[], list[Document]]) -> None:
        self._store = store
        self._kind = kind
        self._columns = columns
        self._objects = objects

    async def answer(self, request: Request) -> Response:
        """A list, or a stream of changes."""
        if request.query_params.get("watch", "").lower() in {"1", "true"}:
            return StreamingResponse(self._watch(request), media_type="application/json")
        found, version = self.selected(request), str(self._store.version)
        if tables.wanted(request.headers.get("accept", "")):
            return JSONResponse(self._columns.table(found, version))
        return JSONResponse({**self._kind.list_of(found), "metadata": {"resourceVersion": version}})

    async def answer_named(self, request: Request) -> Response:
        """One object, by the name in the path."""
        name, namespace = request.path_params["name"], request.path_params.get("namespace")
        for document in self._objects():
            metadata = document["metadata"]
            if metadata["name"] == name and namespace in (None, metadata.get("namespace")):
                return self.answer_one(request, document)
        raise not_found(self._kind.many, name)

    def answer_one(self, request: Request, document: Document) -> Response:
        """One object."""
        return JSONResponse(self._shaped(request, document))

    def _shaped(self, request: Request, document: Document) -> Document:
        if tables.wanted(request.headers.get("accept", "")):
            return self._columns.table([document], document["metadata"]["resourceVersion"])
        return document

    def selected(self, request: Request) -> list[Document]:
        """The objects that a request means."""
        means = _selection(request)
        return [document for document in self._objects() if means(document)]

    async def _watch(self, request: Request) -> AsyncIterator[str]:
        means = _selection(request)
        clock = asyncio.get_running_loop().time
        until = clock() + float(request.query_params.get("timeoutSeconds") or LONGEST_WATCH)
        asked = request.query_params.get("resourceVersion") or "0"
        version = int(asked)
        if version == 0:
            version = self._store.version
            for document in self.selected(request):
                yield _event("ADDED", self._shaped(request, document))
        while (left := until - clock()) > 0:
            try:
                news = self._store.since(version)
            except ExpiredError:
                expired = RefusalError(410, f"too old resource version: {version} ({self._store.version})")
                yield _event("ERROR", expired.status)
                return
            for change in news:
                version = change.version
                if change.kind == self._kind.many and means(change.object):
                    yield _event(change.type, self._shaped(request, change.object))
            if not news:
                await self._store.wait(min(STILL, left))


def _selection(request: Request) -> Callable[[Document], bool]:
    namespace = request.path_params.get("namespace")
    labels = by_labels(request.query_params.get("labelSelector", ""))
    fields = by_fields(request.query_params.get("fieldSelector", ""))

    def means(document: Document) -> bool:
        here = namespace is None or document["metadata"]["namespace"] == namespace
        return here and labels(document) and fields(document)

    return means


def _event(kind: str, document: object) -> str:
    return json.dumps({"type": kind, "object": document}) + "\n"
