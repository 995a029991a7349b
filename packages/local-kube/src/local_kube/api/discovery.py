"""Discovery: the version, the groups and the resources that kubectl reads before every command."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING

from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from local_kube.kinds import POD, STORED_KINDS, Kind
from local_kube.node import architecture

if TYPE_CHECKING:
    from starlette.requests import Request

    from local_kube.json_files import Document

MAJOR, MINOR = "1", "33"
"""The Kubernetes version whose API is implemented."""
READ = ["get", "list", "watch"]
WRITE = ["create", "delete", "patch", "update"]
OPENAPI = "/openapi/v3"
CORE, BATCH = "v1", "batch/v1"
SCHEMAS = {path: [kind for kind in (POD, *STORED_KINDS) if kind.path == path] for path in ("/api/v1", "/apis/batch/v1")}


def routes() -> list[Route]:
    """Return the routes of discovery."""
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


def batch_resources() -> list[Document]:
    """Return the resources of batch/v1."""
    return [
        _resource("jobs", "Job", [*READ, *WRITE], categories=["all"]),
        _resource("jobs/status", "Job", ["get"]),
    ]


def _group() -> Document:
    version = {"groupVersion": BATCH, "version": "v1"}
    return {"kind": "APIGroup", "apiVersion": "v1", "name": "batch", "versions": [version], "preferredVersion": version}


def _resource(name: str, kind: str, verbs: list[str], **more: object) -> Document:
    singular = "" if "/" in name else kind.lower()
    return {"name": name, "singularName": singular, "namespaced": True, "kind": kind, "verbs": verbs, **more}


async def _respond(document: Document, _: Request) -> Response:
    return JSONResponse(document)
