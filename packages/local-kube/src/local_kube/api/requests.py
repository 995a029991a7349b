"""The bodies of requests: reading them, and applying the three patch formats of Kubernetes."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

from local_kube.errors import ApiError

if TYPE_CHECKING:
    from starlette.requests import Request

    from local_kube.json_files import Document

MERGE_KEYS = {
    "conditions": "type",
    "containers": "name",
    "env": "name",
    "imagePullSecrets": "name",
    "initContainers": "name",
    "ownerReferences": "uid",
    "volumeMounts": "mountPath",
    "volumes": "name",
}
"""The lists that a strategic merge patch merges, each with the field that identifies an item. Others are replaced."""
MERGED_AS_SETS = {"finalizers"}


async def body_of(request: Request, *, optional: bool = False) -> Any:
    """Return the JSON body of a request."""
    raw = await request.body()
    if optional and not raw:
        return {}
    try:
        return json.loads(raw)
    except ValueError as error:
        raise ApiError(400, f"the object provided is unrecognized: it is not JSON: {error}") from error


def media_type_of(request: Request) -> str:
    """Return the media type of a request's body, which for a patch names its format."""
    return request.headers.get("content-type", "").partition(";")[0].strip()


def check_version(plural: str, stored: Document, metadata: Document) -> None:
    """Raise ApiError if a change is based on an older version of the object than the stored one."""
    if metadata.get("resourceVersion", stored["resourceVersion"]) != stored["resourceVersion"]:
        raise ApiError(
            409,
            f'Operation cannot be fulfilled on {plural} "{stored["name"]}": the object has been modified; '
            "please apply your changes to the latest version and try again",
        )


def apply_patch(document: Document, patch: Any, media_type: str) -> Document:
    """Return an object with a patch applied; the media type names the patch format."""
    if media_type == "application/json-patch+json":
        return _json_patch(document, patch)
    if not isinstance(patch, dict):
        raise ApiError(400, "a merge patch must be a JSON object")
    if media_type == "application/merge-patch+json":
        return _merge(document, patch)
    if media_type == "application/strategic-merge-patch+json":
        return _strategic(document, patch)
    raise ApiError(415, f"the body of the request was in an unknown format: {media_type}")


def _merge(document: Any, patch: Document) -> Document:
    merged = dict(document) if isinstance(document, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = _merge(merged.get(name), value) if isinstance(value, dict) else value
    return merged


def _strategic(document: Any, patch: Document) -> Document:
    directive = patch.get("$patch")
    wanted = {name: value for name, value in patch.items() if not name.startswith("$")}
    if directive == "replace":
        return wanted
    merged = dict(document) if isinstance(document, dict) else {}
    for name, value in wanted.items():
        if value is None or (isinstance(value, dict) and value.get("$patch") == "delete"):
            merged.pop(name, None)
        elif isinstance(value, dict):
            merged[name] = _strategic(merged.get(name), value)
        elif isinstance(value, list) and name in MERGE_KEYS:
            merged[name] = _merge_list(merged.get(name) or [], value, MERGE_KEYS[name])
        elif name in MERGED_AS_SETS:
            merged[name] = list(dict.fromkeys([*(merged.get(name) or []), *value]))
        else:
            merged[name] = value
    for name, removed in patch.items():
        if name.startswith("$deleteFromPrimitiveList/"):
            key = name.partition("/")[2]
            merged[key] = [value for value in merged.get(key) or [] if value not in removed]
    return merged


def _merge_list(items: list[Document], patch: list[Document], key: str) -> list[Document]:
    merged = {item.get(key): item for item in items}
    for change in patch:
        if change.get("$patch") == "delete":
            merged.pop(change.get(key), None)
        elif change.get("$patch") != "replace":
            merged[change.get(key)] = _strategic(merged.get(change.get(key)), change)
    return list(merged.values())


def _json_patch(document: Document, operations: Any) -> Document:
    if not isinstance(operations, list):
        raise ApiError(400, "a JSON patch must be a list of operations")
    target = copy.deepcopy(document)
    for operation in operations:
        try:
            _apply_operation(target, operation)
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            reason = f"{operation!r}: {type(error).__name__} {error}"
            message = f"the server rejected our request due to an error in our request: {reason}"
            raise ApiError(422, message) from error
    return target


def _apply_operation(target: Document, operation: Document) -> None:
    match operation["op"]:
        case "add":
            _set(target, operation["path"], operation["value"], replace=False)
        case "replace":
            _get(target, operation["path"], remove=False)
            _set(target, operation["path"], operation["value"], replace=True)
        case "remove":
            _get(target, operation["path"], remove=True)
        case "move" | "copy":
            value = copy.deepcopy(_get(target, operation["from"], remove=operation["op"] == "move"))
            _set(target, operation["path"], value, replace=False)
        case "test":
            if _get(target, operation["path"], remove=False) != operation["value"]:
                raise ValueError("the test failed")
        case unknown:
            raise ValueError(f"unknown operation {unknown!r}")


def _get(target: Any, path: str, *, remove: bool) -> Any:
    parent, last = _parent(target, path)
    key = int(last) if isinstance(parent, list) else last
    return parent.pop(key) if remove else parent[key]


def _set(target: Any, path: str, value: Any, *, replace: bool) -> None:
    parent, last = _parent(target, path)
    if not isinstance(parent, list):
        parent[last] = value
    elif replace:
        parent[int(last)] = value
    else:
        parent.insert(len(parent) if last == "-" else int(last), value)


def _parent(target: Any, path: str) -> tuple[Any, str]:
    *parents, last = [part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:]]
    for part in parents:
        target = target[int(part)] if isinstance(target, list) else target[part]
    return target, last
