"""The journal from which a killed comparison or search continues: a line for the question, one for each run.

A line is on the disk before the next run starts. The line that was being written when the machine died is dropped, and
its run made again.
"""

from __future__ import annotations

import fcntl
import json
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ml_metrics.errors import UnreadableInputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path


class Journal:
    """An open journal, which no other process can open meanwhile."""

    def __init__(self, file: int, path: Path, question: dict[str, Any], lines: list[dict[str, Any]]) -> None:
        self._file = file
        self.path = path
        self.question = question
        """What was asked, and what was derived from that when the journal was begun."""
        self.lines = lines
        """One for each run, oldest first."""

    def add(self, line: Mapping[str, Any]) -> None:
        """Write the line of a run to the disk."""
        self.lines.append(dict(line))
        _write(self._file, line)


@contextmanager
def journal_of(
    question: Mapping[str, Any], path: Path, derived: Callable[[], Mapping[str, Any]] | None = None
) -> Iterator[Journal]:
    """Open the journal of a question, or begin it. Raises UnreadableInputError if the file is that of another one.

    `derived` states what follows from the question when it is first asked, such as candidates from a history that
    grows. It is written once, and stays as it was.
    """
    asked = json.loads(json.dumps(question))
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UnreadableInputError(f"{path}: another process is using this journal") from error
        lines = _whole_lines(file, path)
        if not lines:
            lines = [{**asked, **(json.loads(json.dumps(derived())) if derived else {})}]
            _write(file, lines[0])
        elif {key: lines[0].get(key) for key in (asked if derived else lines[0])} != asked:
            raise UnreadableInputError(f"{path}: is the journal of another question: {_difference(lines[0], asked)}")
        yield Journal(file, path, lines[0], lines[1:])
    finally:
        if not os.fstat(file).st_size:  # the question could not be answered: nothing is left behind
            path.unlink(missing_ok=True)
        os.close(file)


def _difference(line: Mapping[str, Any], asked: Mapping[str, Any]) -> str:
    names = ", ".join(key for key in {**asked, **line} if line.get(key) != asked.get(key))
    return f"other values of {names}; name another journal"


def _whole_lines(file: int, path: Path) -> list[dict[str, Any]]:
    """Return the lines, and cut off what was written of a line when its writer died."""
    with os.fdopen(os.dup(file), "rb") as stream:
        stream.seek(0)
        content = stream.read()
    whole = content[: content.rfind(b"\n") + 1]
    lines = [_line(f"{path}:{number}", line) for number, line in enumerate(whole.splitlines(), start=1)]
    if len(whole) < len(content):
        if not lines and content[:1] != b"{":
            raise UnreadableInputError(f"{path}: is no journal")
        os.ftruncate(file, len(whole))
    return lines


def _line(where: str, line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError as error:
        raise UnreadableInputError(f"{where}: is no line of a journal: {error}") from error
    if not isinstance(found, dict):
        raise UnreadableInputError(f"{where}: is no line of a journal")
    return found


def _write(file: int, line: Mapping[str, Any]) -> None:
    os.write(file, json.dumps(line).encode() + b"\n")
    os.fsync(file)
