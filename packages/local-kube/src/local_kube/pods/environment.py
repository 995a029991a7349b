"""A container's variables and command: `$(VAR)` expansion, mount paths, and names of neighbouring pods."""

from __future__ import annotations

import base64
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from local_kube.json_files import Document

INHERITED = ("HOME", "LANG", "LC_ALL", "TZ", "USER", "TMPDIR", "LD_LIBRARY_PATH")
"""The server's variables that containers inherit. All others, which may hold passwords, stay with the server."""
VARIABLE = re.compile(r"\$\$|\$\(([A-Za-z_.-][A-Za-z0-9_.-]*)\)")
LOOPBACK = "127.0.0.1"
KINDS = {"secretKeyRef": "secret", "secretRef": "secret", "secret": "secret"}
"""The kind of object behind each type of reference; all others are ConfigMaps."""


class MissingReferenceError(Exception):
    """A pod refers to something that does not exist."""


@dataclass(frozen=True, slots=True)
class References:
    """The objects to which one pod can refer: those of its namespace."""

    namespace: str
    find: Callable[[str, str, str], Document | None]
    """Returns an object by kind, namespace and name."""

    def data(self, reference: str, source: Document) -> Mapping[str, bytes] | None:
        """Return the entries of an object; None if it is missing and optional."""
        kind, name = KINDS.get(reference, "configmap"), source.get("name") or source.get("secretName") or ""
        found = self.find(kind, self.namespace, name)
        if found is not None:
            return decoded_data(found)
        if source.get("optional"):
            return None
        raise MissingReferenceError(f'{kind} "{name}" not found')

    def value(self, reference: str, source: Document) -> str | None:
        """Return one entry as the value of a variable; None if it is missing and optional."""
        data = self.data(reference, source)
        if data is None:
            return None
        if source["key"] in data:
            return data[source["key"]].decode(errors="replace")
        if source.get("optional"):
            return None
        where = f"{KINDS.get(reference, 'configmap')} {self.namespace}/{source['name']}"
        raise MissingReferenceError(f"couldn't find key {source['key']} in {where}")

    def files(self, volume: Document) -> Mapping[str, bytes]:
        """Return the files of a Secret or ConfigMap volume, by their paths in it."""
        reference = "secret" if "secret" in volume else "configMap"
        source = volume[reference]
        data = self.data(reference, source) or {}
        if not source.get("items"):
            return data
        missing = [item["key"] for item in source["items"] if item["key"] not in data]
        if missing and not source.get("optional"):
            raise MissingReferenceError(f"references non-existent config key: {missing[0]}")
        return {item["path"]: data[item["key"]] for item in source["items"] if item["key"] in data}


def decoded_data(document: Document) -> dict[str, bytes]:
    """Return the entries of a Secret or ConfigMap as bytes."""
    data = document.get("data") or {}
    if document["kind"] == "ConfigMap":
        plain = {name: text.encode() for name, text in data.items()}
        return plain | {name: base64.b64decode(text) for name, text in (document.get("binaryData") or {}).items()}
    return {name: base64.b64decode(text) for name, text in data.items()}


@dataclass(frozen=True, slots=True)
class Mounts:
    """The paths that a container sees, each with the real path behind it."""

    paths: Mapping[str, Path]

    def translate(self, text: str) -> str:
        """Return a text with every mounted path replaced by the real one; the longest match counts.

        A process has no file system of its own, so `/airflow/xcom/return.json` in a command must become the real
        path of that file. Only whole paths count: `/data` is found in `--to=/data/x`, not in `/database` or `/my/data`.
        """
        for seen in sorted(self.paths, key=len, reverse=True):
            pattern = rf"(?<![A-Za-z0-9_./-]){re.escape(seen)}(?![A-Za-z0-9_.-])"
            text = re.sub(pattern, lambda _, real=str(self.paths[seen]): real, text)  # type: ignore[misc]
        return text


def resolve_names(text: str, subdomain: str, namespace: str) -> str:
    """Return a text with the names of pods below a subdomain replaced by the loopback address.

    A name such as `worker-0.workers` is resolved by the DNS of a cluster, which processes do not use.
    """
    tail = rf"{re.escape(subdomain)}(?:\.{re.escape(namespace)}(?:\.svc(?:\.cluster\.local)?)?)?"
    name = r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?"
    return re.sub(rf"(?<![A-Za-z0-9_.-]){name}\.{tail}(?!\.?[A-Za-z0-9_-])", LOOPBACK, text)


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replace `$(VAR)` by its value and `$$` by a dollar; leave unknown variables as they are."""
    return VARIABLE.sub(lambda found: "$" if found[0] == "$$" else variables.get(found[1], found[0]), text)


def container_variables(
    pod: Document,
    container: Document,
    translate: Callable[[str], str],
    mounts: Mapping[str, str],
    references: References,
) -> dict[str, str]:
    """Return the whole environment of a container; `mounts` are the variables that hold the real mount paths."""
    metadata = pod["metadata"]
    bin_folder = str(Path(sys.executable).parent)
    variables = {name: os.environ[name] for name in INHERITED if name in os.environ}
    variables |= {
        "PATH": os.pathsep.join([bin_folder, os.environ.get("PATH", os.defpath)]),
        "HOSTNAME": pod["spec"].get("hostname") or metadata["name"],
        "PYTHONUNBUFFERED": "1",
        **mounts,
    }
    for source in container.get("envFrom") or []:
        variables |= _variables_from(source, references)
    for entry in container.get("env") or []:
        value = _value(entry, variables, pod, container, references)
        if value is not None:
            variables[entry["name"]] = translate(value)
    return variables


def mount_variables(volumes: Mapping[str, Path], prefix: str) -> dict[str, str]:
    """Return the variables that hold the real paths of volumes: the prefix and the volume's name in upper case."""
    return {f"{prefix}{re.sub(r'[^A-Za-z0-9]', '_', name).upper()}": str(path) for name, path in volumes.items()}


def container_command(container: Document, variables: Mapping[str, str], translate: Callable[[str], str]) -> list[str]:
    """Return command and arguments, both expanded."""
    argv = [*(container.get("command") or []), *(container.get("args") or [])]
    return [translate(expand(argument, variables)) for argument in argv]


def field_value(pod: Document, path: str) -> str:
    """Return the value of a `fieldRef`."""
    if found := re.fullmatch(r"metadata\.(labels|annotations)\['(.+)'\]", path):
        return str((pod["metadata"].get(found[1]) or {}).get(found[2], ""))
    if path in {"status.podIP", "status.podIPs", "status.hostIP"}:
        return LOOPBACK
    value: Any = pod
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return "" if value is None else str(value)


def _value(
    entry: Document, variables: Mapping[str, str], pod: Document, container: Document, references: References
) -> str | None:
    source = entry.get("valueFrom")
    if not source:
        return expand(entry.get("value") or "", variables)
    kind, reference = next(iter(source.items()))
    if kind == "fieldRef":
        return field_value(pod, reference["fieldPath"])
    if kind == "resourceFieldRef":
        group, _, resource = reference["resource"].partition(".")
        return str(((container.get("resources") or {}).get(group) or {}).get(resource, "0"))
    return references.value(kind, reference)


def _variables_from(source: Document, references: References) -> dict[str, str]:
    """Return the variables of one entry of `envFrom`."""
    kind = "secretRef" if "secretRef" in source else "configMapRef"
    data = references.data(kind, source[kind]) or {}
    return {f"{source.get('prefix') or ''}{name}": value.decode(errors="replace") for name, value in data.items()}
