"""What the cluster says about itself: versions, groups, resources. kubectl asks before it does anything."""

from __future__ import annotations

import platform
import sys
from functools import partial
from typing import TYPE_CHECKING

from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from local_kube.kinds import KEPT, POD, Kind
from local_kube.scheduling import MACHINES

if TYPE_CHECKING:
    from starlette.requests import Request

    from local_kube.records import Document

MAJOR, MINOR = "1", "33"
"""The Kubernetes version whose shapes are kept."""
READ = ["get", "list", "watch"]
WRITE = ["create", "delete", "patch", "update"]


OPENAPI = "/openapi/v3"
CORE, BATCH = "v1", "batch/v1"
SCHEMAS = {path: [kind for kind in (POD, *KEPT) if kind.path == path] for path in ("/api/v1", "/apis/batch/v1")}


def routes() -> list[Route]:
    """The paths that are served."""
    documents: dict[str, Document] = {
        "/version": version(),
        "/api": {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []},
        "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group()]},
        "/apis/batch": _group(),
        "/api/v1": {"kind": "APIResourceList", "groupVersion": CORE, "resources": core_resources()},
        "/apis/batch/v1": {"kind": "APIResourceList", "groupVersion": BATCH, "resources": batch_resources()},
        OPENAPI: {"paths": {path[1:]: {"serverRelativeURL": f"{OPENAPI}{path}"} for path in SCHEMAS}},
        **{f"{OPENAPI}{path}": openapi(path, kinds) for path, kinds in SCHEMAS.items()},
    }
    answers = [Route(path, partial(_answer, document)) for path, document in documents.items()]
    return [*answers, Route("/openapi/v2", _no_schema)]


def version() -> Document:
    """What `kubectl version` shows of the server."""
    machine = platform.machine()
    return {
        "major": MAJOR,
        "minor": MINOR,
        "gitVersion": f"v{MAJOR}.{MINOR}.0+ml-metrics-local",
        "platform": f"{sys.platform}/{MACHINES.get(machine, machine)}",
    }


def openapi(path: str, kinds: list[Kind]) -> Document:
    """As much of a schema as kubectl needs to leave the checking of a file to the server."""
    group, _, version = kinds[0].api_version.rpartition("/")
    paths = {
        f"{path}/namespaces/{{namespace}}/{kind.many}/{{name}}": {
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
        "info": {"title": "ml-metrics local cluster", "version": f"v{MAJOR}.{MINOR}"},
        "paths": paths,
        "components": {"schemas": {}},
    }


def core_resources() -> list[Document]:
    """The resources of core/v1 that are served."""
    return [
        _resource("pods", "Pod", [*READ, *WRITE, "deletecollection"], shortNames=["po"], categories=["all"]),
        _resource("pods/log", "Pod", ["get"]),
        _resource("pods/status", "Pod", ["get"]),
        _resource("pods/eviction", "Eviction", ["create"], group="policy", version="v1"),
        _resource("pods/exec", "PodExecOptions", ["create", "get"]),
        _resource("events", "Event", READ, shortNames=["ev"]),
        _resource("secrets", "Secret", [*READ, *WRITE, "deletecollection"]),
        _resource("configmaps", "ConfigMap", [*READ, *WRITE, "deletecollection"], shortNames=["cm"]),
        _resource("services", "Service", [*READ, *WRITE, "deletecollection"], shortNames=["svc"], categories=["all"]),
        _resource("nodes", "Node", ["get", "list"], shortNames=["no"], namespaced=False),
        _resource("namespaces", "Namespace", ["get", "list"], shortNames=["ns"], namespaced=False),
    ]


def batch_resources() -> list[Document]:
    """The resources of batch/v1 that are served."""
    return [
        _resource("jobs", "Job", [*READ, *WRITE, "deletecollection"], categories=["all"]),
        _resource("jobs/status", "Job", ["get"]),
    ]


def _group() -> Document:
    version = {"groupVersion": BATCH, "version": "v1"}
    return {"kind": "APIGroup", "apiVersion": "v1", "name": "batch", "versions": [version], "preferredVersion": version}


def _resource(name: str, kind: str, verbs: list[str], **more: object) -> Document:
    singular = "" if "/" in name else kind.lower()
    return {"name": name, "singularName": singular, "namespaced": True, "kind": kind, "verbs": verbs, **more}


async def _answer(document: Document, _: Request) -> Response:
    return JSONResponse(document)


async def _no_schema(_: Request) -> Response:
    """An empty schema for older kubectls, which read protobuf: nothing at all is an empty message there."""
    return Response(media_type="application/octet-stream")
