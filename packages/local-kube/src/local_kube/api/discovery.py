"""The read-only objects that describe the cluster: its version, its resources, its one node and its namespaces."""

from __future__ import annotations

import os
import platform
import sys
from functools import partial
from typing import TYPE_CHECKING

from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from local_kube.formats import now
from local_kube.kinds import POD, STORED_KINDS, Kind
from local_kube.node import NODE_NAME, Node, architecture

if TYPE_CHECKING:
    from starlette.requests import Request

    from local_kube.json_files import Document
    from local_kube.state.store import Store

MAJOR, MINOR = "1", "33"
"""The Kubernetes version whose API is implemented."""
READ = ["get", "list", "watch"]
WRITE = ["create", "delete", "patch", "update"]
OPENAPI = "/openapi/v3"
CORE, BATCH = "v1", "batch/v1"
SCHEMAS = {path: [kind for kind in (POD, *STORED_KINDS) if kind.path == path] for path in ("/api/v1", "/apis/batch/v1")}


def routes() -> list[Route]:
    """Return the routes of discovery."""
    batch = [
        _resource("jobs", "Job", [*READ, *WRITE], categories=["all"]),
        _resource("jobs/status", "Job", ["get"]),
    ]
    documents: dict[str, Document] = {
        "/version": version(),
        "/api": {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []},
        "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group()]},
        "/apis/batch": _group(),
        "/api/v1": {"kind": "APIResourceList", "groupVersion": CORE, "resources": core_resources()},
        "/apis/batch/v1": {"kind": "APIResourceList", "groupVersion": BATCH, "resources": batch},
        OPENAPI: {"paths": {path[1:]: {"serverRelativeURL": f"{OPENAPI}{path}"} for path in SCHEMAS}},
        **{f"{OPENAPI}{path}": openapi(path, kinds) for path, kinds in SCHEMAS.items()},
    }
    return [Route(path, partial(_respond, document)) for path, document in documents.items()]


def version() -> Document:
    """Return the server part of `kubectl version`."""
    return {
        "major": MAJOR,
        "minor": MINOR,
        "gitVersion": f"v{MAJOR}.{MINOR}.0+local-kube",
        "platform": f"{sys.platform}/{architecture()}",
    }


def openapi(path: str, kinds: list[Kind]) -> Document:
    """Return the smallest schema with which kubectl leaves validation to the server."""
    group, _, version = kinds[0].api_version.rpartition("/")
    paths = {
        f"{path}/namespaces/{{namespace}}/{kind.plural}/{{name}}": {
            "patch": {
                "parameters": [{"name": "fieldValidation", "in": "query", "schema": {"type": "string"}}],
                "x-kubernetes-group-version-kind": {"group": group, "version": version, "kind": kind.kind},
                "responses": {"200": {"description": "OK"}},
            }
        }
        for kind in kinds
    }
    return {
        "openapi": "3.0.0",
        "info": {"title": "local-kube", "version": f"v{MAJOR}.{MINOR}"},
        "paths": paths,
        "components": {"schemas": {}},
    }


def core_resources() -> list[Document]:
    """Return the resources of core/v1."""
    return [
        _resource("pods", "Pod", [*READ, *WRITE], shortNames=["po"], categories=["all"]),
        _resource("pods/log", "Pod", ["get"]),
        _resource("pods/eviction", "Eviction", ["create"], group="policy", version="v1"),
        _resource("pods/exec", "PodExecOptions", ["create", "get"]),
        _resource("events", "Event", READ, shortNames=["ev"]),
        _resource("secrets", "Secret", [*READ, *WRITE]),
        _resource("configmaps", "ConfigMap", [*READ, *WRITE], shortNames=["cm"]),
        _resource("services", "Service", [*READ, *WRITE], shortNames=["svc"], categories=["all"]),
        _resource("nodes", "Node", ["get", "list"], shortNames=["no"], namespaced=False),
        _resource("namespaces", "Namespace", ["get", "list"], shortNames=["ns"], namespaced=False),
    ]


def _group() -> Document:
    version = {"groupVersion": BATCH, "version": "v1"}
    return {"kind": "APIGroup", "apiVersion": "v1", "name": "batch", "versions": [version], "preferredVersion": version}


def _resource(name: str, kind: str, verbs: list[str], **more: object) -> Document:
    singular = "" if "/" in name else kind.lower()
    return {"name": name, "singularName": singular, "namespaced": True, "kind": kind, "verbs": verbs, **more}


async def _respond(document: Document, _: Request) -> Response:
    return JSONResponse(document)


class NodeObjects:
    """Makes the objects of the node and of the namespaces."""

    def __init__(self, store: Store, node: Node) -> None:
        self._store = store
        self._node = node
        self._started_at = now()

    def nodes(self) -> list[Document]:
        """Return the node. The capacity of an unlimited resource is what the machine has."""
        machine = {"cpu": os.cpu_count() or 1, "memory": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")}
        offered = {name: _quantity(amount) for name, amount in self._node.resources.items()}
        max_pods = {"pods": str(self._node.max_pods)}
        capacity = {**{name: str(amount) for name, amount in machine.items()}, **offered, **max_pods}
        return [
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {**self._metadata(NODE_NAME), "labels": self._node.all_labels},
                "spec": {},
                "status": {
                    "capacity": capacity,
                    "allocatable": capacity,
                    "conditions": [
                        {
                            "type": "Ready",
                            "status": "True",
                            "reason": "KubeletReady",
                            "message": "the server responds",
                            "lastHeartbeatTime": now(),
                            "lastTransitionTime": self._started_at,
                        }
                    ],
                    "nodeInfo": _node_info(),
                },
            }
        ]

    def namespaces(self) -> list[Document]:
        """Return `default` and every namespace that has a pod. Namespaces need not be created."""
        names = sorted({"default", *(namespace for namespace, _ in self._store.pods)})
        return [
            {
                "apiVersion": "v1",
                "kind": "Namespace",
                "metadata": {**self._metadata(name), "labels": {"kubernetes.io/metadata.name": name}},
                "spec": {},
                "status": {"phase": "Active"},
            }
            for name in names
        ]

    def _metadata(self, name: str) -> Document:
        return {"name": name, "uid": name, "creationTimestamp": self._started_at, "resourceVersion": "1"}


def _node_info() -> Document:
    """Return every field of `nodeInfo`, because clients reject a node without all of them."""
    system = platform.uname()
    server_version = version()["gitVersion"]
    return {
        "architecture": architecture(),
        "bootID": "",
        "containerRuntimeVersion": f"process://{server_version}",
        "kernelVersion": system.release,
        "kubeProxyVersion": server_version,
        "kubeletVersion": server_version,
        "machineID": "",
        "operatingSystem": sys.platform,
        "osImage": system.system,
        "systemUUID": "",
    }


def _quantity(amount: float) -> str:
    """Return an amount exactly, in thousandths if it is not whole."""
    return str(int(amount)) if amount == int(amount) else f"{round(amount * 1000)}m"
