"""What a container is told: its variables, its command with `$(VAR)` filled in, and where its mounts lie."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from local_kube.records import Document
    from local_kube.references import References

PASSED_ON = ("HOME", "LANG", "LC_ALL", "TZ", "USER", "TMPDIR", "LD_LIBRARY_PATH")
"""What a process needs from its machine. Everything else, above all Airflow's connections, stays with the server."""
REFERENCE = re.compile(r"\$\$|\$\(([A-Za-z_.-][A-Za-z0-9_.-]*)\)")
PATH_GOES_ON = r"[A-Za-z0-9_.-]"


@dataclass(frozen=True, slots=True)
class Mounts:
    """Paths that a container sees, and where they really lie: the longest match counts."""

    places: Mapping[str, Path]

    def translate(self, text: str) -> str:
        """A text with every mounted path replaced by the real one.

        A process has no file system of its own, so `/airflow/xcom/return.json` in a command has to become the file's
        real name. Only whole paths count: `/data` is found in `--to=/data/x`, not in `/database` or `/my/data`.
        """
        for seen in sorted(self.places, key=len, reverse=True):
            pattern = rf"(?<![A-Za-z0-9_./-]){re.escape(seen)}(?!{PATH_GOES_ON})"
            text = re.sub(pattern, lambda _, place=str(self.places[seen]): place, text)  # type: ignore[misc]
        return text


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Fill in `$(VAR)`; `$$` is a dollar; a variable that is not there is left as it is written."""
    return REFERENCE.sub(lambda found: _meaning(found, variables), text)


def variables_of(
    pod: Document,
    container: Document,
    translate: Callable[[str], str],
    volumes: Mapping[str, Path],
    references: References,
) -> dict[str, str]:
    """The whole environment of a container."""
    metadata = pod["metadata"]
    bin_folder = str(Path(sys.executable).parent)
    variables = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    variables |= {
        "PATH": os.pathsep.join([bin_folder, os.environ.get("PATH", os.defpath)]),
        "HOSTNAME": pod["spec"].get("hostname") or metadata["name"],
        "PYTHONUNBUFFERED": "1",
    }
    variables |= {f"ML_METRICS_MOUNT_{_as_variable(name)}": str(place) for name, place in volumes.items()}
    for whole in container.get("envFrom") or []:
        variables |= _all_of(whole, references)
    for entry in container.get("env") or []:
        value = _value(entry, variables, pod, container, references)
        if value is not None:
            variables[entry["name"]] = translate(value)
    return variables


def command_of(container: Document, variables: Mapping[str, str], translate: Callable[[str], str]) -> list[str]:
    """Command and arguments, both expanded, as Kubernetes does."""
    words = [*(container.get("command") or []), *(container.get("args") or [])]
    return [translate(expand(word, variables)) for word in words]


def field_of(pod: Document, path: str) -> str:
    """What `fieldRef` names."""
    if found := re.fullmatch(r"metadata\.(labels|annotations)\['(.+)'\]", path):
        return str((pod["metadata"].get(found[1]) or {}).get(found[2], ""))
    constants = {"status.podIP": "127.0.0.1", "status.podIPs": "127.0.0.1", "status.hostIP": "127.0.0.1"}
    if path in constants:
        return constants[path]
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
        return field_of(pod, reference["fieldPath"])
    if kind == "resourceFieldRef":
        group, _, resource = reference["resource"].partition(".")
        return str(((container.get("resources") or {}).get(group) or {}).get(resource, "0"))
    return references.value(kind, reference)


def _all_of(whole: Document, references: References) -> dict[str, str]:
    """What an entry of `envFrom` brings."""
    kind = "secretRef" if "secretRef" in whole else "configMapRef"
    data = references.data(kind, whole[kind]) or {}
    return {f"{whole.get('prefix') or ''}{name}": value.decode(errors="replace") for name, value in data.items()}


def _meaning(found: re.Match[str], variables: Mapping[str, str]) -> str:
    if found[0] == "$$":
        return "$"
    return variables.get(found[1], found[0])


def _as_variable(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9]", "_", name).upper()
