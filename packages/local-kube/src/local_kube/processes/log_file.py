"""A container's log in the CRI format: `2026-11-21T09:00:00.123456789Z stdout F text`.

F marks the end of a line, P a part of one that is longer than the buffer. Standard library only: the shim imports it.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from local_kube.formats import precise_now

if TYPE_CHECKING:
    from pathlib import Path

CHUNK_BYTES = 64 * 1024
MAX_PART_BYTES = 16 * 1024


class LogWriter:
    """Writes a container's output. A full disk loses lines but never stops the container."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._rest = b""

    def copy_from(self, source: int) -> bool:
        """Copy the available data of a pipe to the log; return False at the end of the pipe."""
        try:
            data = os.read(source, CHUNK_BYTES)
        except BlockingIOError:
            return True
        *lines, self._rest = (self._rest + data).split(b"\n")
        stamp = precise_now().encode()
        written = b"".join(_entries(stamp, line) for line in lines)
        while len(self._rest) >= MAX_PART_BYTES:
            written += _entry(stamp, b"P", self._rest[:MAX_PART_BYTES])
            self._rest = self._rest[MAX_PART_BYTES:]
        self._write(written)
        return bool(data)

    def close(self) -> None:
        """Write an unfinished last line, and close the file."""
        if self._rest:
            self._write(_entry(precise_now().encode(), b"P", self._rest))
        os.close(self._file)

    def _write(self, data: bytes) -> None:
        with suppress(OSError):
            os.write(self._file, data)


def _entries(stamp: bytes, line: bytes) -> bytes:
    if len(line) <= MAX_PART_BYTES:
        return _entry(stamp, b"F", line)
    parts = [line[at : at + MAX_PART_BYTES] for at in range(0, len(line), MAX_PART_BYTES)]
    return b"".join(_entry(stamp, b"P", part) for part in parts[:-1]) + _entry(stamp, b"F", parts[-1])


def _entry(stamp: bytes, tag: bytes, content: bytes) -> bytes:
    return b"%b stdout %b %b\n" % (stamp, tag, content)


def tail(path: Path, max_bytes: int) -> str:
    """Return the end of a container's output."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - 4 * max_bytes))
            entries = file.read().splitlines()
    except FileNotFoundError:
        return ""
    output = b"".join(content + (b"\n" if tag == b"F" else b"") for _, tag, content in map(parse, entries) if tag)
    return output[-max_bytes:].decode(errors="replace").strip()


def parse(entry: bytes) -> tuple[bytes, bytes, bytes]:
    """Return time, tag and content of an entry; the tag is empty if the entry is damaged, as by a full disk."""
    parts = entry.split(b" ", 3)
    if len(parts) != 4 or parts[1] != b"stdout" or parts[2] not in {b"F", b"P"}:
        return b"", b"", b""
    return parts[0], parts[2], parts[3]
