"""A container's log: lines with the time at which they came, in the format that container runtimes share.

`2026-11-21T09:00:00.123456789Z stdout F text`: F ends a line, P is a part of one (a line longer than a buffer).
Standard library only: the shim writes it.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from local_kube.records import precise_now

if TYPE_CHECKING:
    from pathlib import Path

CHUNK = 64 * 1024
LONGEST_PART = 16 * 1024


class LogWriter:
    """Writes what a container says. A full disk loses lines, but never stops the container."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._rest = b""

    def take(self, source: int) -> bool:
        """Move what is there from a pipe to the log; False at the pipe's end."""
        try:
            data = os.read(source, CHUNK)
        except BlockingIOError:
            return True
        *lines, self._rest = (self._rest + data).split(b"\n")
        stamp = precise_now().encode()  # one for all of them: they came together
        written = b"".join(_entries(stamp, line) for line in lines)
        while len(self._rest) >= LONGEST_PART:
            written += _entry(stamp, b"P", self._rest[:LONGEST_PART])
            self._rest = self._rest[LONGEST_PART:]
        self._write(written)
        return bool(data)

    def close(self) -> None:
        """Write what came without a line's end, and close."""
        if self._rest:
            self._write(_entry(precise_now().encode(), b"P", self._rest))
        os.close(self._file)

    def _write(self, data: bytes) -> None:
        with suppress(OSError):
            os.write(self._file, data)


def _entries(stamp: bytes, line: bytes) -> bytes:
    if len(line) <= LONGEST_PART:
        return _entry(stamp, b"F", line)
    parts = [line[at : at + LONGEST_PART] for at in range(0, len(line), LONGEST_PART)]
    return b"".join(_entry(stamp, b"P", part) for part in parts[:-1]) + _entry(stamp, b"F", parts[-1])


def _entry(stamp: bytes, tag: bytes, content: bytes) -> bytes:
    return b"%b stdout %b %b\n" % (stamp, tag, content)


def last_lines(path: Path, most: int) -> str:
    """The end of what a container said, at most so many bytes."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - 4 * most))
            entries = file.read().splitlines()
    except FileNotFoundError:
        return ""
    said = b"".join(content + (b"\n" if tag == b"F" else b"") for _, tag, content in map(parse, entries) if tag)
    return said[-most:].decode(errors="replace").strip()


def parse(entry: bytes) -> tuple[bytes, bytes, bytes]:
    """Time, tag and content of an entry; an empty tag if it is none (the disk was full)."""
    parts = entry.split(b" ", 3)
    if len(parts) != 4 or parts[1] != b"stdout" or parts[2] not in {b"F", b"P"}:  # noqa: PLR2004
        return b"", b"", b""
    return parts[0], parts[2], parts[3]
