"""Source archives and wheels of every distribution: the same bytes from the same files, anywhere and at any time."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from release.archives import normalise_sdist, normalise_wheel
from release.tree import Distribution, ReleaseError, distributions, export, tracked

if TYPE_CHECKING:
    from collections.abc import Sequence

HOOK = "import importlib, sys; print(getattr(importlib.import_module(sys.argv[1]), sys.argv[2])(sys.argv[3]))"
UMASK = 0o022
VERSION_LINES = {
    "__init__.py": re.compile(rb'^(__version__ = )"[^"]+"', re.MULTILINE),
    "pyproject.toml": re.compile(rb'^(\[project\]\n(?:(?!\[).*\n)*?version = )"[^"]+"', re.MULTILINE),
}
"""Where a distribution may state its version."""


@dataclass(frozen=True, slots=True)
class Build:
    """What is built, and where to."""

    project: Path
    out: Path
    epoch: int
    """The time of every file, in seconds since 1970."""
    version: str = ""
    """Replaces the version in the files."""
    files: Sequence[Path] = ()
    """The files of the project, relative to it. Default: those that git tracks."""

    def run(self) -> list[Path]:
        """Build every distribution, and return the files: for each, its source archive and its wheel."""
        self.out.mkdir(parents=True, exist_ok=True)
        files = list(self.files) or tracked(self.project)
        return [path for one in distributions(self.project) for path in self._build(one, files)]

    def _build(self, one: Distribution, files: list[Path]) -> tuple[Path, Path]:
        with tempfile.TemporaryDirectory() as folder:
            source, unpacked = Path(folder, "source"), Path(folder, "unpacked")
            export(self.project, files, one, source)
            if self.version:
                _set_version(source, self.version)
            sdist = self._call(one, "build_sdist", source)
            normalise_sdist(sdist, self.epoch)
            # from the archive, so it is complete
            with tarfile.open(sdist) as archive:
                # not an argument: Debian 12 has Python 3.11.2, which does not know it
                archive.extraction_filter = getattr(tarfile, "data_filter", None)
                archive.extractall(unpacked)  # noqa: S202  (made above)
            (inner,) = unpacked.iterdir()
            wheel = self._call(one, "build_wheel", inner)
            normalise_wheel(wheel, self.epoch)
        return sdist, wheel

    def _call(self, one: Distribution, hook: str, source: Path) -> Path:
        kept = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "PYTHONWARNINGS"}}
        own = {"SOURCE_DATE_EPOCH": str(self.epoch), "PYTHONHASHSEED": "0", "TZ": "UTC", "LC_ALL": "C.UTF-8"}
        done = subprocess.run(
            [sys.executable, "-c", HOOK, one.backend, hook, str(self.out.resolve())],
            cwd=source,
            env=kept | own,
            umask=UMASK,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise ReleaseError(f"{one.name}: {hook} failed:\n{done.stderr[-4000:]}")
        return self.out / done.stdout.splitlines()[-1]


def with_version(name: str, data: bytes, version: str) -> bytes:
    """Return the content of a file that may state the version, with this one."""
    pattern = VERSION_LINES.get(name)
    return pattern.sub(rb'\g<1>"' + version.encode() + b'"', data) if pattern else data


def _set_version(source: Path, version: str) -> None:
    for name in VERSION_LINES:
        for file in source.rglob(name):
            file.write_bytes(with_version(name, file.read_bytes(), version))
