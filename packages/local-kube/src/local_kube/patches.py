"""The three ways in which Kubernetes clients patch an object. Each returns a new object."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from local_kube.refusals import RefusalError

if TYPE_CHECKING:
    from local_kube.records import Document

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
"""The lists that a strategic merge patch merges, and what tells their items apart. Others are replaced."""
MERGED_AS_SETS = {"finalizers"}


def patched(document: Document, patch: Any, media_type: str) -> Document:
    """The object after a patch of the kind that the media type names."""
    if media_type == "application/json-patch+json":
        return _json_patch(document, patch)
    if not isinstance(patch, dict):
        raise RefusalError(400, "a merge patch must be a JSON object")
    if media_type == "application/merge-patch+json":
        return _merge(document, patch)
    if media_type == "application/strategic-merge-patch+json":
        return _strategic(document, patch)
    raise RefusalError(415, f"the body of the request was in an unknown format: {media_type}")


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
    for name, gone in patch.items():
        if name.startswith("$deleteFromPrimitiveList/"):
            key = name.partition("/")[2]
            merged[key] = [value for value in merged.get(key) or [] if value not in gone]
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
        raise RefusalError(400, "a JSON patch must be a list of operations")
    target = copy.deepcopy(document)
    for operation in operations:
        try:
            _operate(target, operation)
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            what = f"{operation!r}: {type(error).__name__} {error}"
            raise RefusalError(
                422, f"the server rejected our request due to an error in our request: {what}"
            ) from error
    return target


def _operate(target: Document, operation: Document) -> None:
    match operation["op"]:
        case "add":
            _put(target, operation["path"], operation["value"], replace=False)
        case "replace":
            _take(target, operation["path"], remove=False)
            _put(target, operation["path"], operation["value"], replace=True)
        case "remove":
            _take(target, operation["path"], remove=True)
        case "move" | "copy":
            value = copy.deepcopy(_take(target, operation["from"], remove=operation["op"] == "move"))
            _put(target, operation["path"], value, replace=False)
        case "test":
            if _take(target, operation["path"], remove=False) != operation["value"]:
                raise ValueError("the test failed")
        case unknown:
            raise ValueError(f"unknown operation {unknown!r}")


def _take(target: Any, path: str, *, remove: bool) -> Any:
    parent, last = _parent(target, path)
    key = int(last) if isinstance(parent, list) else last
    return parent.pop(key) if remove else parent[key]


def _put(target: Any, path: str, value: Any, *, replace: bool) -> None:
    parent, last = _parent(target, path)
    if not isinstance(parent, list):
        parent[last] = value
    elif replace:
        parent[int(last)] = value
    else:
        parent.insert(len(parent) if last == "-" else int(last), value)


def _parent(target: Any, path: str) -> tuple[Any, str]:
    *way, last = [part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:]]
    for part in way:
        target = target[int(part)] if isinstance(target, list) else target[part]
    return target, last
