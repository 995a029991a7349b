"""The last commit in which a test file could be read, where the test files are in a git checkout."""

from __future__ import annotations

import os
import subprocess
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ml_metrics.config.config_file import read_file
from ml_metrics.config.document import MAX_BYTES
from ml_metrics.config.inherit import ConfigFolder
from ml_metrics.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

MAX_COMMITS = 20
TIME_LIMIT_SECONDS = 5.0
MAX_SUBJECT = 100
SEPARATOR = "\x1f"
OPTIONS = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "log.showSignature=false")
ENVIRONMENT = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "LC_ALL": "C",
}
"""The checkout's own configuration may name programs: none of the commands used here starts one."""


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit of a file."""

    name: str
    author: str
    day: str
    subject: str

    def __str__(self) -> str:
        return f"{self.name[:12]} ({self.subject}, {self.author}, {self.day})"


def last_good_commit(file: Path, test_file: Path, root: Path) -> Commit | None:
    """Return the last commit of a file in which the test file that needs it could be read, if that is known.

    `file` is the file with the problem: the test file itself, or one that it includes.
    """

    def is_good(data: bytes) -> bool:
        try:
            with ConfigFolder(root) as folder:
                folder.use_content(file, data)
                return not read_file(test_file, folder).problems
        except (ConfigError, OSError):
            return False

    return None if file.suffix == ".jsonnet" else _first(file, is_good)


def last_commit(file: Path) -> Commit | None:
    """Return the last commit that has a file, if that is known."""
    return _first(file, lambda _: True)


def _first(file: Path, is_good: Callable[[bytes], bool]) -> Commit | None:
    try:
        deadline = time.monotonic() + TIME_LIMIT_SECONDS
        for commit, data in _versions(file.absolute(), deadline):
            if is_good(data):
                return commit
            if time.monotonic() > deadline:
                break
    except (OSError, subprocess.SubprocessError, ValueError):
        return None  # no git, no checkout, one of another user, or too slow
    return None


def _versions(file: Path, deadline: float) -> Iterator[tuple[Commit, bytes]]:
    """Yield the commits that changed a file, newest first, with its content."""
    folder = next(parent for parent in file.parents if parent.is_dir()).resolve()
    path = file.relative_to(next(parent for parent in file.parents if parent.is_dir())).as_posix()
    layout = SEPARATOR.join(("%H", "%an", "%as", "%s"))
    listed = ("rev-list", f"--max-count={MAX_COMMITS}", "--no-commit-header", f"--format={layout}", "HEAD", "--", path)
    for line in _git(folder, deadline, *listed).decode(errors="replace").splitlines():
        name, author, day, subject = line.split(SEPARATOR, 3)
        try:
            size = int(_git(folder, deadline, "cat-file", "-s", f"{name}:./{path}"))
            data = _git(folder, deadline, "cat-file", "blob", f"{name}:./{path}") if size <= MAX_BYTES else None
        except subprocess.CalledProcessError:
            continue  # the commit that deleted it
        if data is not None:
            yield Commit(name, _text(author), _text(day), _text(subject)), data


def _git(folder: Path, deadline: float, *arguments: str) -> bytes:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    done = subprocess.run(
        ["git", "--no-pager", "--literal-pathspecs", *OPTIONS, "-C", str(folder), *arguments],
        env={**environment, **ENVIRONMENT},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
        timeout=max(0.1, deadline - time.monotonic()),
    )
    return done.stdout


def _text(text: str) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in text)[:MAX_SUBJECT]
