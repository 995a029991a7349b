"""The files of the project that git tracks, and the distributions among them."""

from __future__ import annotations

import subprocess
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[1]
NOT_SHIPPED = ("tests", "campaigns", "packages", "release", ".ci")
"""Folders of a distribution that are no part of its source: its tests, other distributions, how releases are made."""
EXECUTABLE, PLAIN, FOLDER = 0o755, 0o644, 0o755


class ReleaseError(Exception):
    """What is wrong with a release, and what to do."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """What one pyproject.toml describes."""

    folder: Path
    """Relative to the project."""
    about: dict[str, Any]

    @property
    def name(self) -> str:
        """The name that pip knows."""
        return str(self.about["project"]["name"])

    @property
    def backend(self) -> str:
        """The module that builds it."""
        return str(self.about["build-system"]["build-backend"])


def distributions(project: Path = PROJECT) -> list[Distribution]:
    """Return every distribution: that of the project, then those in `packages/`."""
    described = [project / "pyproject.toml", *sorted(project.glob("packages/*/pyproject.toml"))]
    return [Distribution(file.parent.relative_to(project), tomllib.loads(file.read_text())) for file in described]


def tracked(project: Path = PROJECT) -> list[Path]:
    """Return the files that git tracks and that are there, relative to the project, sorted.

    A link to a folder of the project stands for the files there.
    """
    paths = [Path(name) for name in git(project, "ls-files", "-z").split("\0") if name]
    files = [path for path in paths if (project / path).is_file()]
    for link in paths:
        if (project / link).is_symlink() and (project / link).is_dir():
            target = (project / link).resolve()
            if not target.is_relative_to(project.resolve()):
                raise ReleaseError(f"{link}: is a link to {target}, which is outside of the project")
            inside = target.relative_to(project.resolve())
            files += [link / file.relative_to(inside) for file in files if file.is_relative_to(inside)]
    return sorted(files)


def git(project: Path, *arguments: str) -> str:
    """Return what a command of git prints."""
    try:
        return subprocess.run(["git", *arguments], cwd=project, check=True, capture_output=True, text=True).stdout
    except subprocess.CalledProcessError as error:
        raise ReleaseError(f"git {' '.join(arguments)}: {error.stderr.strip()}") from error


def export(project: Path, files: list[Path], one: Distribution, target: Path) -> None:
    """Copy the source of a distribution, with the same modes everywhere: git keeps only whether a file is a program."""
    target.mkdir(parents=True)
    for file in files:
        inside = file.relative_to(one.folder) if file.is_relative_to(one.folder) else None
        if inside is None or inside.parts[0] in NOT_SHIPPED:
            continue
        copy = target / inside
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes((project / file).read_bytes())
        copy.chmod(EXECUTABLE if (project / file).stat().st_mode & 0o100 else PLAIN)
