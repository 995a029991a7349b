"""Bills of materials in CycloneDX's JSON, made from the lock files: the same bytes from the same files."""

from __future__ import annotations

import hashlib
import json
import re
import uuid
import zipfile
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email import message_from_bytes
from typing import TYPE_CHECKING, Any

from release.licences import licence_of
from release.locks import Locked, normal, read_lock
from release.tree import ReleaseError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from email.message import Message
    from pathlib import Path

SPEC_VERSION = "1.6"
NAMESPACE = uuid.UUID("5e8d1d5a-3b1e-4d0c-9a53-6d6c2d6d6c73")
LOCKS = ("requirements.lock", "requirements-dev.lock")
"""What a deployment installs, and what only extras and tests need."""


@dataclass(frozen=True, slots=True)
class Graph:
    """The packages of a lock file, and what each needs."""

    packages: dict[str, tuple[Locked, ...]]
    needs: dict[str, set[str]]
    licences: dict[str, str] = field(default_factory=dict)
    """Those of our own distributions, which no lock file names."""

    @classmethod
    def of(cls, locked: Iterable[Locked]) -> Graph:
        """Turn around what the lock file states: who asked for a package."""
        packages: dict[str, tuple[Locked, ...]] = {}
        needs: dict[str, set[str]] = {}
        for one in locked:
            packages[one.name] = (*packages.get(one.name, ()), one)
            for parent in one.wanted_by:
                needs.setdefault(normal(parent), set()).add(one.name)
        return cls(packages, needs)

    def add(self, wheel: Path) -> None:
        """Add a distribution of ours."""
        about = _metadata(wheel)
        name = normal(about["Name"])
        self.packages[name] = (Locked(name, about["Version"], "", ()),)
        self.needs[name], _ = _requirements(about)
        self.licences[name] = about["License-Expression"] or ""

    def check(self, names: Iterable[str], wheel: str) -> None:
        """Raise ReleaseError if one of the names is in no lock file, and is no distribution of ours."""
        if missing := sorted(set(names) - self.packages.keys()):
            raise ReleaseError(f"{wheel}: needs {', '.join(missing)}, which is not in {' or '.join(LOCKS)}")

    def reach(self, names: Iterable[str]) -> set[str]:
        """Return packages with everything that they need."""
        found: set[str] = set()
        waiting = {name for name in names if name in self.packages}
        while waiting:
            name = waiting.pop()
            found.add(name)
            waiting |= self.needs.get(name, set()) & self.packages.keys() - found
        return found

    def references(self, names: Iterable[str]) -> list[str]:
        """Return the addresses of packages, sorted."""
        return sorted(one.purl for name in names for one in self.packages.get(name, ()))


def of_wheel(wheel: Path, epoch: int, others: Iterable[Path] = ()) -> str:
    """Return the bill of a wheel: what it needs, with the versions of the lock files; of extras, as optional.

    The others are the wheels of the same release, which it may need, too.

    Raises:
        ReleaseError: it needs what is not locked.
    """
    about = _metadata(wheel)
    deployed, more = map(read_lock, LOCKS)
    graph = Graph.of([*deployed, *(one for one in more if one.name not in {each.name for each in deployed})])
    for other in others:
        graph.add(other)
    name, version = normal(about["Name"]), about["Version"]
    required, extras = _requirements(about)
    extras.discard(name)  # an extra may ask for other extras of its own distribution
    graph.check(required | extras, wheel.name)
    own = _component(name, version, about["License-Expression"] or "", "application")
    own["hashes"] = [{"alg": "SHA-256", "content": hashlib.sha256(wheel.read_bytes()).hexdigest()}]
    parts = Parts(graph, required | extras, graph.reach(required), graph.reach(required | extras))
    return _document(own, parts, epoch)


def of_lock(lock: str, epoch: int) -> str:
    """Return the bill of all that a lock file installs."""
    packages = read_lock(lock)
    graph = Graph.of(packages)
    asked = {one.name for one in packages if any(each.endswith(".txt") for each in one.wanted_by)}
    own = {"type": "application", "bom-ref": lock, "name": lock}
    return _document(own, Parts(graph, asked, set(graph.packages), set(graph.packages)), epoch)


@dataclass(frozen=True, slots=True)
class Parts:
    """What a bill lists."""

    graph: Graph
    direct: set[str]
    """The packages that the project requires directly."""
    required: set[str]
    """What is installed without extras."""
    all: set[str]

    def components(self) -> list[dict[str, Any]]:
        """Return every package, by name."""
        named = [(name, one) for name in sorted(self.all) for one in self.graph.packages[name]]
        known = self.graph.licences
        return [
            _locked(one, known.get(name) or licence_of(one).licence, optional=name not in self.required)
            for name, one in named
        ]

    def dependencies(self, own: str) -> list[dict[str, Any]]:
        """Return what each package depends on."""
        named = [(name, one) for name in sorted(self.all) for one in self.graph.packages[name]]
        return [{"ref": own, "dependsOn": self.graph.references(self.direct)}] + [
            {"ref": one.purl, "dependsOn": self.graph.references(self.graph.needs.get(name, ()))} for name, one in named
        ]


def _document(own: dict[str, Any], parts: Parts, epoch: int) -> str:
    content = {
        "$schema": f"http://cyclonedx.org/schema/bom-{SPEC_VERSION}.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": SPEC_VERSION,
        "version": 1,
        "metadata": {"timestamp": datetime.fromtimestamp(epoch, UTC).isoformat(), "component": own},
        "components": parts.components(),
        "dependencies": parts.dependencies(own["bom-ref"]),
    }
    serial = uuid.uuid5(NAMESPACE, json.dumps(content, sort_keys=True))
    return json.dumps({**content, "serialNumber": f"urn:uuid:{serial}"}, indent=2, sort_keys=True) + "\n"


def _locked(one: Locked, licence: str, *, optional: bool) -> dict[str, Any]:
    made = _component(one.name, one.version, licence, "library")
    made |= {"scope": "optional" if optional or one.marker else "required"}
    if one.marker:
        made["properties"] = [{"name": "python:marker", "value": one.marker}]
    return made


def _component(name: str, version: str, licence: str, kind: str) -> dict[str, Any]:
    purl = f"pkg:pypi/{name}@{version.replace('+', '%2B')}"
    made: dict[str, Any] = {"type": kind, "bom-ref": purl, "name": name, "version": version, "purl": purl}
    if licence:
        made["licenses"] = [{"expression": licence}]
    return made


def _metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
        return message_from_bytes(archive.read(name))


def _requirements(about: Message) -> tuple[set[str], set[str]]:
    """Return the names of what is required, and of what extras require."""
    required: set[str] = set()
    extras: set[str] = set()
    for line in about.get_all("Requires-Dist") or []:
        name = re.match(r"[A-Za-z0-9._-]+", line)
        if name:
            (extras if re.search(r";.*\bextra\b", line) else required).add(normal(name[0]))
    return required, extras
