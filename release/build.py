"""Source archives and wheels of every distribution: the same bytes from the same files, anywhere and at any time."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tempfile
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
    "pyproject.toml": re.compile(rb'^(version = )"[^"]+"', re.MULTILINE),
}
"""Where a distribution may state its version."""


def build_all(
    project: Path, out: Path, epoch: int, version: str = "", files: Sequence[Path] | None = None
) -> list[Path]:
    """Build every distribution into a folder, and return the files: for each, its source archive and its wheel.

    Without a version, that of the files. The wheel is built from the source archive, so the archive is complete.
    """
    out.mkdir(parents=True, exist_ok=True)
    chosen = tracked(project) if files is None else list(files)
    return [path for one in distributions(project) for path in _build(one, project, chosen, out, epoch, version)]


def _build(
    one: Distribution, project: Path, files: list[Path], out: Path, epoch: int, version: str
) -> tuple[Path, Path]:
    with tempfile.TemporaryDirectory() as folder:
        source, unpacked = Path(folder, "source"), Path(folder, "unpacked")
        export(project, files, one, source)
        if version:
            _set_version(source, version)
        sdist = _run(one, "build_sdist", source, out, epoch)
        normalise_sdist(sdist, epoch)
        with tarfile.open(sdist) as archive:
            archive.extractall(unpacked, filter="data")
        (inner,) = unpacked.iterdir()
        wheel = _run(one, "build_wheel", inner, out, epoch)
        normalise_wheel(wheel, epoch)
    return sdist, wheel


def with_version(name: str, data: bytes, version: str) -> bytes:
    """Return the content of a file that may state the version, with this one."""
    pattern = VERSION_LINES.get(name)
    return pattern.sub(rb'\g<1>"' + version.encode() + b'"', data) if pattern else data


def _set_version(source: Path, version: str) -> None:
    for name in VERSION_LINES:
        for file in source.rglob(name):
            file.write_bytes(with_version(name, file.read_bytes(), version))


def _run(one: Distribution, hook: str, source: Path, out: Path, epoch: int) -> Path:
    kept = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "PYTHONWARNINGS"}}
    done = subprocess.run(
        [sys.executable, "-c", HOOK, one.backend, hook, str(out.resolve())],
        cwd=source,
        env={**kept, "SOURCE_DATE_EPOCH": str(epoch), "PYTHONHASHSEED": "0", "TZ": "UTC", "LC_ALL": "C.UTF-8"},
        umask=UMASK,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise ReleaseError(f"{one.name}: {hook} failed:\n{done.stderr[-4000:]}")
    return out / done.stdout.splitlines()[-1]
