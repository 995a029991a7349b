"""What is in the distributions, and what must not be."""

from __future__ import annotations

import re
import subprocess
import tarfile
import zipfile
from typing import TYPE_CHECKING

from release.tree import PROJECT, ReleaseError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

TOOLS = PROJECT / ".venv-release" / "bin"
NEVER = re.compile(
    r"(^|/)(tests?|__pycache__|node_modules|build|\.[^/]*cache[^/]*|\.git[^/]*|\.airflow|\.venv[^/]*)/"
    r"|(^|/)(\.DS_Store|\.env|Thumbs\.db|airflow\.(cfg|db)|[^/]*\.(py[co]|pem|key|p12|sqlite|db|log|orig|rej|swp))$"
)
SECRET = re.compile(
    rb"-----BEGIN [A-Z ]*PRIVATE KEY-----\r?\n[A-Za-z0-9+/=]{20}|\bAKIA[0-9A-Z]{16}\b|\bAIza[\w-]{35}\b"
)
OF_THE_BACKEND = re.compile(r"\.dist-info/|\.egg-info/|^PKG-INFO$|^setup\.cfg$")
"""What the build backend writes."""


def contents(path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the files in a wheel or a source archive; of the latter, without the folder that all are in."""
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as wheel:
            for name in wheel.namelist():
                yield name, wheel.read(name)
        return
    with tarfile.open(path) as archive:
        for member in archive:
            if (file := archive.extractfile(member)) is not None:
                yield member.name.partition("/")[2], file.read()


def unwanted(path: Path, known: Iterable[bytes]) -> list[str]:
    """Return what is wrong in a distribution. Each file is one of the known contents, or of the build backend."""
    ours = set(known)
    wrong = []
    for name, data in contents(path):
        if SECRET.search(data):
            wrong.append(f"{path.name}: {name} seems to hold a secret")
        elif OF_THE_BACKEND.search(name):
            continue
        elif NEVER.search(name):
            wrong.append(f"{path.name}: {name} should not be in it")
        elif data not in ours:
            wrong.append(f"{path.name}: {name} is no file of the project, as git knows it")
    return wrong


def in_several(wheels: Iterable[Path]) -> list[str]:
    """Return the files that more than one wheel would install: the removal of one would break the other."""
    owners: dict[str, list[str]] = {}
    for wheel in wheels:
        for name, _ in contents(wheel):
            owners.setdefault(name, []).append(wheel.name)
    return [f"{name} is in {' and in '.join(both)}" for name, both in sorted(owners.items()) if len(both) > 1]


def check_with_tools(files: Sequence[Path]) -> None:
    """Check descriptions with twine, and wheels with check-wheel-contents."""
    wheels = [file for file in files if file.suffix == ".whl"]
    _check("twine", "check", "--strict", *map(str, files))
    _check("check-wheel-contents", *map(str, wheels))


def check_bills(bills: Sequence[Path]) -> None:
    """Check bills of materials against the schema of CycloneDX."""
    _check("python", "-c", VALIDATE, *map(str, bills))


VALIDATE = """
import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
for path in sys.argv[1:]:
    if wrong := JsonStrictValidator(SchemaVersion.V1_6).validate_str(open(path).read()):
        sys.exit(f"{path}: {wrong}")
"""


def _check(tool: str, *arguments: str) -> None:
    done = subprocess.run([TOOLS / tool, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise ReleaseError(f"{tool}: {done.stdout}{done.stderr}")
