"""The journal of a search: a line for what is searched, and one for each probe, so that a killed search goes on.

A line is on the disk before the next probe starts. The line that was being written when the machine died is dropped,
and its probe made again.
"""

from __future__ import annotations

import fcntl
import json
import os
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ml_metrics.bisection.search import Probe, Search, State
from ml_metrics.errors import UnreadableInputError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Journal:
    """The open journal of one search, which no other process can open meanwhile."""

    def __init__(self, file: int, probes: list[Probe]) -> None:
        self._file = file
        self.probes = probes

    def add(self, probe: Probe) -> None:
        """Write a probe to the disk."""
        self.probes.append(probe)
        _write(self._file, asdict(probe))


@contextmanager
def journal_of(search: Search, path: Path) -> Iterator[Journal]:
    """Open the journal of a search, or begin it. Raises UnreadableInputError if the file is that of another search."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UnreadableInputError(f"{path}: another process goes on with this search") from error
        lines = _whole_lines(file, path)
        if not lines:
            _write(file, _definition(search))
        elif lines[0] != json.loads(json.dumps(_definition(search))):
            raise UnreadableInputError(f"{path}: is the journal of another search: {_difference(lines[0], search)}")
        yield Journal(file, [_probe(f"{path}:{number}", line) for number, line in enumerate(lines[1:], start=2)])
    finally:
        os.close(file)


def _definition(search: Search) -> dict[str, Any]:
    return asdict(search)


def _difference(line: Any, search: Search) -> str:
    if not isinstance(line, dict):
        return "its first line does not state what is searched"
    stated = json.loads(json.dumps(_definition(search)))
    return f"{', '.join(key for key, value in stated.items() if line.get(key) != value)} differ; name another journal"


def _whole_lines(file: int, path: Path) -> list[Any]:
    """Return the lines, and cut off what was written of a line when its writer died."""
    with os.fdopen(os.dup(file), "rb") as stream:
        stream.seek(0)
        content = stream.read()
    whole = content[: content.rfind(b"\n") + 1]
    if len(whole) < len(content):
        os.ftruncate(file, len(whole))
    try:
        return [json.loads(line) for line in whole.splitlines()]
    except ValueError as error:
        raise UnreadableInputError(f"{path}: is not the journal of a search: {error}") from error


def _probe(where: str, line: Any) -> Probe:
    try:
        return Probe(int(line["candidate"]), line["value"], State(line["state"]))
    except (KeyError, TypeError, ValueError) as error:
        raise UnreadableInputError(f"{where}: is not a probe: {error}") from error


def _write(file: int, line: dict[str, Any]) -> None:
    os.write(file, json.dumps(line).encode() + b"\n")
    os.fsync(file)
