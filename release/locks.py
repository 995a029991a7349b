"""The lock files: every package at one version, and which packages asked for it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from release.tree import PROJECT

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = re.compile(r"^(?P<name>[A-Za-z0-9_.-]+)(?:\[[^\]]*\])?==(?P<version>[^ ;]+)(?: ; (?P<marker>.*?))? \\$")
VIA = re.compile(r"^ +#(?: via| {2}) (?P<by>[A-Za-z0-9_.-]+)")
LOCKS = {
    "requirements.lock": "what a deployment installs",
    "requirements-dev.lock": "what the tests need besides",
    "requirements-release.lock": "what releases need, in an environment of their own",
    "requirements-uv.lock": "what installs everything else",
}
ELSEWHERE = frozenset(
    f"requirements-{name}.lock" for name in ("celery", "compose", "detectors", "integrations", "integrations-torch")
)
"""What other environments have: workers of Celery, the image without Google, others' detectors, training frameworks."""


@dataclass(frozen=True, slots=True)
class Locked:
    """One package of a lock file."""

    name: str
    version: str
    marker: str
    """Where it is installed; empty: everywhere."""
    wanted_by: tuple[str, ...]
    """The packages that ask for it, and the files of requirements."""

    @property
    def purl(self) -> str:
        """The address of the package, as bills of materials have it."""
        return f"pkg:pypi/{self.name}@{self.version.replace('+', '%2B')}"


def read_lock(lock: str) -> list[Locked]:
    """Return the packages of a lock file, by name."""
    return sorted(_packages((PROJECT / "requirements" / lock).read_text(encoding="utf-8")), key=lambda one: one.name)


def normal(name: str) -> str:
    """Return the name of a package in the form that all spellings share."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _packages(text: str) -> Iterator[Locked]:
    for block in re.split(r"\n(?=[A-Za-z0-9])", text):
        lines = block.splitlines()
        if found := PACKAGE.match(lines[0]):
            by = (via["by"] for line in lines[1:] if (via := VIA.match(line)))
            yield Locked(normal(found["name"]), found["version"], found["marker"] or "", tuple(by))
