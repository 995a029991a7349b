"""The places that records are written to: a file on this machine, or numbered parts in a bucket."""

from __future__ import annotations

import os
import re
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

RUN_DIR = "ML_METRICS_RUN_DIR"
"""The environment variable that names the run folder."""
PART_BYTES = 1 << 20
"""A part of a bucket's log that is as long as this is finished, and the next begins: so much a write sends at most."""
LOCAL_INTERVAL = 0.5
BUCKET_INTERVAL = 1.0
"""Seconds between two writes. A bucket takes no more than one write of an object in a second."""


def open_destination(folder: str, stem: str, *, alone: bool = False) -> LocalFile | BucketParts:
    """Where the lines of `<stem>.jsonl` go in a folder.

    Args:
        folder: A path, `file://...` or an address that fsspec knows.
        stem: The file's name without `.jsonl`.
        alone: Whether lines of two writers must not mix. The second one then gets a file of its own.
    """
    if is_remote(folder):
        return BucketParts(folder, stem, ".jsonl")
    return LocalFile(Path(folder.removeprefix("file://")) / f"{stem}.jsonl", alone=alone)


def is_remote(folder: str) -> bool:
    """Whether a folder is in a bucket."""
    return "://" in folder and not folder.startswith("file://")


class LocalFile:
    """A file that records are appended to, opened at the first of them.

    Args:
        path: The file.
        alone: Whether a second writer must write elsewhere.
        head: Makes what a new file begins with. A file without a head holds lines.
    """

    interval = LOCAL_INTERVAL
    remote = False

    def __init__(self, path: Path, *, alone: bool = False, head: Callable[[], bytes] | None = None) -> None:
        self._asked_for = path
        self.path = path
        self._alone = alone
        self._head = head
        self._handle: int | None = None
        self._written = 0
        """How much of the batch a full disk has taken: the next try continues there."""

    def write(self, data: bytes) -> None:
        """Append whole records. After an error the same batch comes again, and continues where it stopped."""
        if self._handle is None:
            self._handle = self._open()
        while self._written < len(data):
            self._written += os.write(self._handle, memoryview(data)[self._written :])
        self._written = 0

    def after_fork(self) -> None:
        """Leave the file, and the lock on it, to the parent."""
        self.close()
        self.path = self._asked_for

    def close(self) -> None:
        """Close the file."""
        if self._handle is not None:
            with suppress(OSError):
                os.close(self._handle)
        self._handle = None
        self._written = 0

    def __str__(self) -> str:
        return str(self.path)

    def _open(self) -> int:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        handle = _open_to_append(self.path)
        if self._alone and not _locked(handle):
            os.close(handle)
            self.path = self._asked_for.with_name(f"{self._asked_for.stem}.{writer_name()}.jsonl")
            handle = _open_to_append(self.path)
        if self._head is not None:
            os.write(handle, self._head())
        elif _ends_inside_a_line(self.path):
            os.write(handle, b"\n")
        return handle


class BucketParts:
    """Numbered objects `<stem>.<writer>.<number><suffix>`, as an object cannot be appended to.

    The part that grows is sent whole at every write, until it is long enough for the next to begin. The writer's name
    begins with the time, so that names sort as they were written.
    """

    interval = BUCKET_INTERVAL
    remote = True

    def __init__(self, folder: str, stem: str, suffix: str, head: Callable[[], bytes] = bytes) -> None:
        self._folder = folder.rstrip("/")
        self._stem = stem
        self._suffix = suffix
        self._head = head
        self._writer = writer_name()
        self._filesystem: Any = None
        self._growing = head()
        self._number = 0

    def write(self, data: bytes) -> None:
        """Send the growing part with these records at its end."""
        if self._filesystem is None:
            import fsspec

            self._filesystem = fsspec.core.url_to_fs(self._folder)[0]
        part = self._growing + data
        name = f"{self._folder}/{self._stem}.{self._writer}.{self._number:05d}{self._suffix}"
        self._filesystem.pipe_file(name, part)
        self._growing = part
        if len(part) >= PART_BYTES:
            self._growing = self._head()
            self._number += 1

    def after_fork(self) -> None:
        """Begin parts of its own; a client's threads do not live on in a child."""
        self.__init__(self._folder, self._stem, self._suffix, self._head)  # type: ignore[misc]  # everything anew

    def close(self) -> None:
        """Nothing is open between two writes."""

    def __str__(self) -> str:
        return f"{self._folder}/{self._stem}.{self._writer}.*{self._suffix}"


def writer_name() -> str:
    """A name that no other writer has and that sorts by time: `20260102T030405123456-host-17`."""
    now = time.time()
    moment = time.strftime("%Y%m%dT%H%M%S", time.gmtime(now)) + f"{int(now % 1 * 1e6):06d}"
    host = re.sub(r"[^A-Za-z0-9-]", "-", socket.gethostname())[:40]
    return f"{moment}-{host}-{os.getpid()}"


def _open_to_append(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0), 0o644)


def _locked(handle: int) -> bool:
    """Whether this process is now the file's only writer. True where files cannot be locked."""
    try:
        import fcntl
    except ImportError:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True


def _ends_inside_a_line(path: Path) -> bool:
    """Whether an earlier writer was killed in the middle of a line."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        if not size:
            return False
        file.seek(-1, os.SEEK_END)
        return file.read(1) != b"\n"
