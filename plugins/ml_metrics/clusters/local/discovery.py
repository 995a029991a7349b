"""What the cluster says about itself: versions, groups, resources. kubectl asks before it does anything."""

from __future__ import annotations

import platform
import sys
from functools import partial
from typing import TYPE_CHECKING

from starlette.responses import JSONResponse
from starlette.routing import Route

from ml_metrics.clusters.local.scheduling import MACHINES

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from ml_metrics.clusters.local.records import Document

MAJOR, MINOR = "1", "33"
"""The Kubernetes version whose shapes are kept."""
READ = ["get", "list", "watch"]
WRITE = ["create", "delete", "patch", "update"]


OPENAPI = "/openapi/v3/api/v1"


def routes() -> list[Route]:
    """The paths that are served."""
    documents: dict[str, Document] = {
        "/version": version(),
        "/api": {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []},
        "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": []},
        "/api/v1": {"kind": "APIResourceList", "groupVersion": "v1", "resources": resources()},
        "/openapi/v3": {"paths": {"api/v1": {"serverRelativeURL": OPENAPI}}},
        OPENAPI: openapi(),
    }
    return [Route(path, partial(_answer, document)) for path, document in documents.items()]


def version() -> Document:
    """What `kubectl version` shows of the server."""
    machine = platform.machine()
    return {
        "major": MAJOR,
        "minor": MINOR,
        "gitVersion": f"v{MAJOR}.{MINOR}.0+ml-metrics-local",
        "platform": f"{sys.platform}/{MACHINES.get(machine, machine)}",
    }


def openapi() -> Document:
    """As much of a schema as kubectl needs to leave the checking of a file to the server."""
    paths = {
        f"/api/v1/namespaces/{{namespace}}/{kind.lower()}s/{{name}}": {
            "patch": {
                "parameters": [{"name": "fieldValidation", "in": "query", "schema": {"type": "string"}}],
                "x-kubernetes-group-version-kind": {"group": "", "version": "v1", "kind": kind},
                "responses": {"200": {"description": "OK"}},
            }
        }
        for kind in ("Pod", "Secret", "ConfigMap")
    }
    return {
        "openapi": "3.0.0",
        "info": {"title": "ml-metrics local cluster", "version": f"v{MAJOR}.{MINOR}"},
        "paths": paths,
        "components": {"schemas": {}},
    }


def resources() -> list[Document]:
    """The resources of core/v1 that are served."""
    return [
        _resource("pods", "Pod", [*READ, *WRITE, "deletecollection"], shortNames=["po"], categories=["all"]),
        _resource("pods/log", "Pod", ["get"]),
        _resource("pods/status", "Pod", ["get"]),
        _resource("pods/exec", "PodExecOptions", ["create", "get"]),
        _resource("events", "Event", READ, shortNames=["ev"]),
        _resource("secrets", "Secret", [*READ, *WRITE]),
        _resource("configmaps", "ConfigMap", [*READ, *WRITE], shortNames=["cm"]),
        _resource("nodes", "Node", ["get", "list"], shortNames=["no"], namespaced=False),
        _resource("namespaces", "Namespace", ["get", "list"], shortNames=["ns"], namespaced=False),
    ]


def _resource(name: str, kind: str, verbs: list[str], **more: object) -> Document:
    singular = "" if "/" in name else kind.lower()
    return {"name": name, "singularName": singular, "namespaced": True, "kind": kind, "verbs": verbs, **more}


async def _answer(document: Document, _: Request) -> Response:
    return JSONResponse(document)
