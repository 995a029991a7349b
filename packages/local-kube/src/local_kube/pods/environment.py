"""A container's variables and command: `$(VAR)` expansion, mount paths, and names of neighbouring pods."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from local_kube.json_files import Document
    from local_kube.pods.references import References

INHERITED = ("HOME", "LANG", "LC_ALL", "TZ", "USER", "TMPDIR", "LD_LIBRARY_PATH")
"""The server's variables that containers inherit. All others, which may hold passwords, stay with the server."""
VARIABLE = re.compile(r"\$\$|\$\(([A-Za-z_.-][A-Za-z0-9_.-]*)\)")
LOOPBACK = "127.0.0.1"


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
