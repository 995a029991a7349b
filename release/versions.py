"""The rules of versions: one place for the version, a changelog with an entry for it, and a tag on the commit."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from itertools import pairwise
from typing import TYPE_CHECKING

from release.tree import PROJECT, ReleaseError, git

if TYPE_CHECKING:
    from pathlib import Path

PLACE = "plugins/ml_metrics/__init__.py"
CHANGELOG = "CHANGELOG.md"
STATED = re.compile(r'^__version__ = "([^"]+)"$', re.MULTILINE)
NUMBER = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)")
HEADING = re.compile(r"## (?P<version>\S+) \((?P<when>\d{4}-\d{2}-\d{2}|not released yet)\)")
OPEN = "not released yet"


@dataclass(frozen=True, slots=True)
class Entry:
    """One version in the changelog."""

    version: str
    released: date | None
    text: str

    @property
    def number(self) -> tuple[int, ...]:
        """The version in the order of versions."""
        return tuple(map(int, self.version.split(".")))


@dataclass(frozen=True, slots=True)
class Release:
    """What is to be built."""

    version: str
    epoch: int
    """The time of the commit, which is the time of every file in the archives."""


def stated_version(project: Path = PROJECT) -> str:
    """Return the version of the package."""
    found = STATED.search((project / PLACE).read_text(encoding="utf-8"))
    if found is None or not NUMBER.fullmatch(found[1]):
        raise ReleaseError(f'{PLACE}: should have a line `__version__ = "1.2.3"`, with three numbers')
    return found[1]


def changelog(project: Path = PROJECT) -> list[Entry]:
    """Return the versions in the changelog, newest first.

    Raises:
        ReleaseError: a heading has another form or order, or an entry says nothing.
    """
    text = (project / CHANGELOG).read_text(encoding="utf-8")
    parts = re.split(r"^(## .*)$", text, flags=re.MULTILINE)[1:]
    entries = [_entry(heading, body) for heading, body in zip(parts[::2], parts[1::2], strict=True)]
    if not entries:
        raise ReleaseError(f"{CHANGELOG}: has no version, such as `## 1.2.3 ({OPEN})`")
    for newer, older in pairwise(entries):
        if newer.number <= older.number:
            raise ReleaseError(f"{CHANGELOG}: {newer.version} stands above {older.version}, which is not older")
        if older.released is None:
            raise ReleaseError(f"{CHANGELOG}: {older.version} is not released, and a newer version stands above it")
        if newer.released and newer.released < older.released:
            raise ReleaseError(f"{CHANGELOG}: {newer.version} is dated before {older.version}")
    return entries


def release_of(project: Path = PROJECT, *, dev: bool = False) -> Release:
    """Return the version to build: a release, or for development a local version that names the commit.

    Raises:
        ReleaseError: it cannot be released, for all the reasons that there are.
    """
    version, newest = stated_version(project), changelog(project)[0]
    head = git(project, "rev-parse", "--short=12", "HEAD").strip()
    epoch = int(git(project, "log", "-1", "--format=%ct"))
    dirty = git(project, "status", "--porcelain").splitlines()
    if dev:
        return Release(f"{version}+dev.g{head}{'.dirty' if dirty else ''}", epoch)
    wrong = []
    if newest.version != version:
        wrong.append(f"{PLACE} states version {version}, and the newest in {CHANGELOG} is {newest.version}")
    if newest.released is None:
        wrong.append(f"{CHANGELOG}: {newest.version} is `{OPEN}`; write its date")
    if f"v{version}" not in git(project, "tag", "--points-at", "HEAD").split():
        wrong.append(f"no tag v{version} is at the commit; git tag v{version}")
    if dirty:
        wrong.append(f"{len(dirty)} files are changed or not tracked, such as {dirty[0][3:]}; commit them")
    if wrong:
        raise ReleaseError(
            "this cannot be released (`make dist DEV=1` builds it for development):\n- " + "\n- ".join(wrong)
        )
    return Release(version, epoch)


def _entry(heading: str, body: str) -> Entry:
    found = HEADING.fullmatch(heading)
    if found is None or not NUMBER.fullmatch(found["version"]):
        raise ReleaseError(f"{CHANGELOG}: `{heading}` should be like `## 1.2.3 (2026-01-31)` or `## 1.2.3 ({OPEN})`")
    if not re.search(r"^- ", body, re.MULTILINE):
        raise ReleaseError(f"{CHANGELOG}: {found['version']} lists no change")
    try:
        released = None if found["when"] == OPEN else date.fromisoformat(found["when"])
    except ValueError as error:
        raise ReleaseError(f"{CHANGELOG}: `{heading}`: {error}") from error
    return Entry(found["version"], released, body)
