"""The pods API over HTTP: the part of Kubernetes' core/v1 that clients of pods call."""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING, Any

from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from local_kube import admission, logs, patches, tables
from local_kube.kinds import EVENT, NAMESPACE, NODE, POD
from local_kube.listing import Listing
from local_kube.refusals import RefusalError, not_found

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from starlette.requests import Request

    from local_kube.kinds import Kind
    from local_kube.kubelet import Kubelet
    from local_kube.machine import Machine
    from local_kube.records import Document
    from local_kube.store import Store

LOG_PAUSE = 0.1
START_PAUSE = 1.0


class PodsApi:
    """The requests about pods and their events."""

    def __init__(self, store: Store, kubelet: Kubelet, machine: Machine) -> None:
        self._store = store
        self._kubelet = kubelet

        def listing(kind: Kind, objects: Callable[[], list[Document]]) -> Listing:
            return Listing(store, kind, tables.COLUMNS[kind], objects)

        self._nodes = listing(NODE, machine.nodes)
        self._namespaces = listing(NAMESPACE, machine.namespaces)
        self._pods = listing(POD, lambda: list(store.pods.values()))
        self._events = listing(EVENT, lambda: list(store.events))

    @property
    def routes(self) -> list[Route]:
        """The paths that are served."""
        space = "/api/v1/namespaces/{namespace}"
        return [
            Route("/api/v1/pods", self._pods.answer, methods=["GET"]),
            Route("/api/v1/events", self._events.answer, methods=["GET"]),
            Route("/api/v1/nodes", self._nodes.answer, methods=["GET"]),
            Route("/api/v1/nodes/{name}", self._nodes.answer_named, methods=["GET"]),
            Route("/api/v1/namespaces", self._namespaces.answer, methods=["GET"]),
            Route("/api/v1/namespaces/{name}", self._namespaces.answer_named, methods=["GET"]),
            Route(f"{space}/pods", self._pods.answer, methods=["GET"]),
            Route(f"{space}/pods", self.create, methods=["POST"]),
            Route(f"{space}/pods", self.delete_many, methods=["DELETE"]),
            Route(f"{space}/pods/{{name}}", self.get, methods=["GET"]),
            Route(f"{space}/pods/{{name}}", self.patch, methods=["PATCH"]),
            Route(f"{space}/pods/{{name}}", self.replace, methods=["PUT"]),
            Route(f"{space}/pods/{{name}}", self.delete, methods=["DELETE"]),
            Route(f"{space}/pods/{{name}}/status", self.get, methods=["GET"]),
            Route(f"{space}/pods/{{name}}/eviction", self.evict, methods=["POST"]),
            Route(f"{space}/pods/{{name}}/log", self.log, methods=["GET"]),
            Route(f"{space}/events", self._events.answer, methods=["GET"]),
        ]

    async def create(self, request: Request) -> Response:
        """POST: let a pod in."""
        pod = admission.admitted(await body_of(request), request.path_params["namespace"])
        name = pod["metadata"]["name"]
        if (pod["metadata"]["namespace"], name) in self._store.pods:
            raise RefusalError(409, f'pods "{name}" already exists', "AlreadyExists")
        if "dryRun" not in request.query_params:
            self._store.add(pod)
            self._kubelet.take(pod)
            await self._beginning(pod)
        return JSONResponse(pod, 201)

    async def _beginning(self, pod: Document) -> None:
        """Wait a moment for a pod that is about to run: a client that sees it Pending looks away for five seconds."""
        until = time.monotonic() + START_PAUSE
        while _is_being_created(pod) and (left := until - time.monotonic()) > 0:
            await self._store.wait(left)

    async def get(self, request: Request) -> Response:
        """GET one pod."""
        return self._pods.answer_one(request, self._pod(request))

    async def patch(self, request: Request) -> Response:
        """PATCH in any of Kubernetes' three ways."""
        media_type = request.headers.get("content-type", "").partition(";")[0].strip()
        patch = await body_of(request)
        pod = self._pod(request)
        return self._change(pod, patches.patched(pod, patch, media_type))

    async def replace(self, request: Request) -> Response:
        """PUT: the whole object, where nothing that may not change does."""
        wanted = await body_of(request)
        return self._change(self._pod(request), wanted)

    async def delete(self, request: Request) -> Response:
        """DELETE one pod, with grace."""
        options = await body_of(request, optional=True)
        pod = self._pod(request)
        expected = (options.get("preconditions") or {}).get("uid")
        if expected not in (None, pod["metadata"]["uid"]):
            raise RefusalError(409, f"the UID in the precondition ({expected}) does not match the UID in record")
        self._kubelet.delete(pod, _grace(request, options, pod))
        return JSONResponse(pod)

    async def evict(self, request: Request) -> Response:
        """POST an eviction: what draining a node does to each of its pods."""
        eviction, pod = await body_of(request), self._pod(request)
        grace = _grace(request, eviction.get("deleteOptions") or {}, pod)
        self._kubelet.disrupt(pod, "EvictionByEvictionAPI", "Eviction API: evicting", grace)
        return JSONResponse({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}, 201)

    async def delete_many(self, request: Request) -> Response:
        """DELETE what the selectors mean."""
        options = await body_of(request, optional=True)
        pods = self._pods.selected(request)
        for pod in pods:
            self._kubelet.delete(pod, _grace(request, options, pod))
        return JSONResponse(POD.list_of(pods))

    async def log(self, request: Request) -> Response:
        """GET what a container said."""
        pod = self._pod(request)
        query = logs.LogQuery.of(request.query_params)
        name = _container(pod, request.query_params.get("container"))
        attempts = self._kubelet.container(pod, name).attempts
        wanted = attempts[:-1] if query.previous else attempts
        if query.previous and not wanted:
            raise RefusalError(
                400, f'previous terminated container "{name}" in pod "{pod["metadata"]["name"]}" not found'
            )
        if not wanted:
            raise RefusalError(400, _not_started(pod, name))
        attempt = wanted[-1]

        async def pause() -> None:
            await asyncio.sleep(LOG_PAUSE)

        def ended() -> bool:
            """Whether the pod's status says so: who follows a log looks there when the log ends."""
            return not self._store.holds(pod) or attempt.container_id in _ended_containers(pod)

        text: AsyncIterator[bytes] = logs.read(attempt.log, query, ended, pause)
        return StreamingResponse(text, media_type="text/plain")

    def _pod(self, request: Request) -> Document:
        name = request.path_params["name"]
        pod = self._store.pods.get((request.path_params["namespace"], name))
        if pod is None:
            raise not_found("pods", name)
        return pod

    def _change(self, pod: Document, wanted: Document) -> Response:
        pod.update(admission.changed(pod, wanted))
        self._store.changed(pod)
        return JSONResponse(pod)


async def body_of(request: Request, *, optional: bool = False) -> Any:
    """The JSON that a request brings."""
    raw = await request.body()
    if optional and not raw:
        return {}
    try:
        return json.loads(raw)
    except ValueError as error:
        raise RefusalError(400, f"the object provided is unrecognized: it is not JSON: {error}") from error


def _grace(request: Request, options: Document, pod: Document) -> int:
    asked = request.query_params.get("gracePeriodSeconds", options.get("gracePeriodSeconds"))
    return int(pod["spec"]["terminationGracePeriodSeconds"] if asked is None else asked)


def _container(pod: Document, asked: str | None) -> str:
    spec, name = pod["spec"], pod["metadata"]["name"]
    main = [container["name"] for container in spec["containers"]]
    known = [*main, *(container["name"] for container in spec.get("initContainers") or [])]
    if asked and asked not in known:
        raise RefusalError(400, f"container {asked} is not valid for pod {name}")
    if not asked and len(main) > 1:
        raise RefusalError(400, f"a container name must be specified for pod {name}, choose one of: [{' '.join(main)}]")
    return str(asked or main[0])


def _is_being_created(pod: Document) -> bool:
    """Whether a pod has its place, and nothing but time between it and its first process."""
    entries = pod["status"].get("containerStatuses") or []
    states = [entry["state"].get("waiting", {}).get("reason", "ContainerCreating") for entry in entries]
    pending = pod["status"]["phase"] == "Pending" and pod["spec"].get("nodeName")
    return bool(pending) and set(states) <= {"ContainerCreating"}


def _ended_containers(pod: Document) -> set[str]:
    entries = [*(pod["status"].get("containerStatuses") or []), *(pod["status"].get("initContainerStatuses") or [])]
    states = [state for entry in entries for state in (entry["state"], entry["lastState"])]
    return {state["terminated"].get("containerID", "") for state in states if "terminated" in state}


def _not_started(pod: Document, name: str) -> str:
    status = pod["status"]
    entries = [*(status.get("containerStatuses") or []), *(status.get("initContainerStatuses") or [])]
    state: Document = next((entry["state"] for entry in entries if entry["name"] == name), {})
    reason = state.get("waiting", {}).get("reason", "ContainerCreating")
    return f'container "{name}" in pod "{pod["metadata"]["name"]}" is waiting to start: {reason}'
