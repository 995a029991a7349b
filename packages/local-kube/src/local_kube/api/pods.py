"""Requests for pods, and for the events, nodes and namespaces of core/v1."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from local_kube.api import tables
from local_kube.api.listing import Listing
from local_kube.api.requests import apply_patch, body_of, check_version, media_type_of
from local_kube.errors import ApiError, not_found
from local_kube.kinds import EVENT, NAMESPACE, NODE, POD
from local_kube.pods import admission
from local_kube.processes import log_reader

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from starlette.requests import Request

    from local_kube.api.discovery import NodeObjects
    from local_kube.json_files import Document
    from local_kube.kinds import Kind
    from local_kube.pods.kubelet import Kubelet
    from local_kube.state.store import Store

LOG_POLL_SECONDS = 0.1
MAX_START_WAIT_SECONDS = 1.0


class PodsApi:
    """Handles requests for pods and events, and for nodes and namespaces, which are read-only."""

    def __init__(self, store: Store, kubelet: Kubelet, nodes: NodeObjects) -> None:
        self._store = store
        self._kubelet = kubelet

        def listing(kind: Kind, objects: Callable[[], list[Document]]) -> Listing:
            return Listing(store, kind, tables.COLUMNS[kind], objects)

        self._nodes = listing(NODE, nodes.nodes)
        self._namespaces = listing(NAMESPACE, nodes.namespaces)
        self._pods = listing(POD, lambda: list(store.pods.values()))
        self._events = listing(EVENT, lambda: list(store.events))

    @property
    def routes(self) -> list[Route]:
        """The routes of pods, events, nodes and namespaces."""
        namespaced = "/api/v1/namespaces/{namespace}"
        return [
            Route("/api/v1/pods", self._pods.get_many, methods=["GET"]),
            Route("/api/v1/events", self._events.get_many, methods=["GET"]),
            Route("/api/v1/nodes", self._nodes.get_many, methods=["GET"]),
            Route("/api/v1/nodes/{name}", self._nodes.get_one, methods=["GET"]),
            Route("/api/v1/namespaces", self._namespaces.get_many, methods=["GET"]),
            Route("/api/v1/namespaces/{name}", self._namespaces.get_one, methods=["GET"]),
            Route(f"{namespaced}/pods", self._pods.get_many, methods=["GET"]),
            Route(f"{namespaced}/pods", self.create, methods=["POST"]),
            Route(f"{namespaced}/pods/{{name}}", self._pods.get_one, methods=["GET"]),
            Route(f"{namespaced}/pods/{{name}}", self.patch, methods=["PATCH"]),
            Route(f"{namespaced}/pods/{{name}}", self.replace, methods=["PUT"]),
            Route(f"{namespaced}/pods/{{name}}", self.delete, methods=["DELETE"]),
            Route(f"{namespaced}/pods/{{name}}/eviction", self.evict, methods=["POST"]),
            Route(f"{namespaced}/pods/{{name}}/log", self.log, methods=["GET"]),
            Route(f"{namespaced}/events", self._events.get_many, methods=["GET"]),
        ]

    async def create(self, request: Request) -> Response:
        """POST a pod."""
        pod = admission.admit(await body_of(request), request.path_params["namespace"])
        name = pod["metadata"]["name"]
        if (pod["metadata"]["namespace"], name) in self._store.pods:
            raise ApiError(409, f'pods "{name}" already exists', "AlreadyExists")
        if "dryRun" not in request.query_params:
            self._store.add(pod)
            self._kubelet.add(pod)
            await self._wait_for_start(pod)
        return JSONResponse(pod, 201)

    async def _wait_for_start(self, pod: Document) -> None:
        """Wait briefly for a pod that is about to run, because Airflow polls a pending pod only every five seconds."""
        until = time.monotonic() + MAX_START_WAIT_SECONDS
        while _is_being_created(pod) and (left := until - time.monotonic()) > 0:
            await self._store.wait(left)

    async def patch(self, request: Request) -> Response:
        """PATCH a pod."""
        patch = await body_of(request)
        return self._change(request, apply_patch(self._pod(request), patch, media_type_of(request)))

    async def replace(self, request: Request) -> Response:
        """PUT a whole pod, whose immutable fields must not differ."""
        return self._change(request, await body_of(request))

    async def delete(self, request: Request) -> Response:
        """DELETE a pod, with its grace period."""
        options = await body_of(request, optional=True)
        pod = self._pod(request)
        expected = (options.get("preconditions") or {}).get("uid")
        if expected not in (None, pod["metadata"]["uid"]):
            raise ApiError(409, f"the UID in the precondition ({expected}) does not match the UID in record")
        self._kubelet.delete(pod, _grace_seconds(request, options, pod))
        return JSONResponse(pod)

    async def evict(self, request: Request) -> Response:
        """POST an eviction, as `kubectl drain` does for each pod of a node."""
        eviction, pod = await body_of(request), self._pod(request)
        grace = _grace_seconds(request, eviction.get("deleteOptions") or {}, pod)
        self._kubelet.disrupt(pod, "EvictionByEvictionAPI", "Eviction API: evicting", grace)
        return JSONResponse({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}, 201)

    async def log(self, request: Request) -> Response:
        """GET a container's log."""
        pod = self._pod(request)
        query = log_reader.LogQuery.of(request.query_params)
        name = _container_name(pod, request.query_params.get("container"))
        attempts = self._kubelet.container(pod, name).attempts
        if query.previous:
            attempts = attempts[:-1]
        if query.previous and not attempts:
            where = f'"{name}" in pod "{pod["metadata"]["name"]}"'
            raise ApiError(400, f"previous terminated container {where} not found")
        if not attempts:
            raise ApiError(400, _waiting_message(pod, name))
        attempt = attempts[-1]

        async def pause() -> None:
            await asyncio.sleep(LOG_POLL_SECONDS)

        def ended() -> bool:
            """Wait for the pod's status, because clients read the status as soon as the log ends."""
            return not self._store.holds(pod) or attempt.container_id in _terminated_container_ids(pod)

        text: AsyncIterator[bytes] = log_reader.read(attempt.log, query, ended, pause)
        return StreamingResponse(text, media_type="text/plain")

    def _pod(self, request: Request) -> Document:
        name = request.path_params["name"]
        pod = self._store.pods.get((request.path_params["namespace"], name))
        if pod is None:
            raise not_found("pods", name)
        return pod

    def _change(self, request: Request, wanted: Document) -> Response:
        pod = self._pod(request)
        check_version(POD.plural, pod["metadata"], wanted.get("metadata") or {})
        pod.update(admission.admit_change(pod, wanted))
        self._store.update(pod)
        return JSONResponse(pod)


def _grace_seconds(request: Request, options: Document, pod: Document) -> int:
    requested = request.query_params.get("gracePeriodSeconds", options.get("gracePeriodSeconds"))
    return int(pod["spec"]["terminationGracePeriodSeconds"] if requested is None else requested)


def _container_name(pod: Document, requested: str | None) -> str:
    """Return the requested container's name, or that of the only container."""
    spec, name = pod["spec"], pod["metadata"]["name"]
    main = [container["name"] for container in spec["containers"]]
    names = [*main, *(container["name"] for container in spec.get("initContainers") or [])]
    if requested and requested not in names:
        raise ApiError(400, f"container {requested} is not valid for pod {name}")
    if not requested and len(main) > 1:
        raise ApiError(400, f"a container name must be specified for pod {name}, choose one of: [{' '.join(main)}]")
    return str(requested or main[0])


def _container_statuses(pod: Document) -> list[Document]:
    return [*(pod["status"].get("containerStatuses") or []), *(pod["status"].get("initContainerStatuses") or [])]


def _is_being_created(pod: Document) -> bool:
    """Return whether a pod is scheduled and none of its containers has started or failed to start."""
    entries = pod["status"].get("containerStatuses") or []
    states = [entry["state"].get("waiting", {}).get("reason", "ContainerCreating") for entry in entries]
    pending = pod["status"]["phase"] == "Pending" and pod["spec"].get("nodeName")
    return bool(pending) and set(states) <= {"ContainerCreating"}


def _terminated_container_ids(pod: Document) -> set[str]:
    states = [state for entry in _container_statuses(pod) for state in (entry["state"], entry["lastState"])]
    return {state["terminated"].get("containerID", "") for state in states if "terminated" in state}


def _waiting_message(pod: Document, name: str) -> str:
    state: Document = next((entry["state"] for entry in _container_statuses(pod) if entry["name"] == name), {})
    reason = state.get("waiting", {}).get("reason", "ContainerCreating")
    return f'container "{name}" in pod "{pod["metadata"]["name"]}" is waiting to start: {reason}'
