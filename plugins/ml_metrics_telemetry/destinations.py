"""Where records are written: a local file, or numbered parts in a bucket."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

RUN_DIR = "ML_METRICS_RUN_DIR"
"""The environment variable with the path of the run folder."""
PART_BYTES = 1 << 20
"""The size at which a part in a bucket is complete and the next one starts. It limits the upload of a single write."""
BUCKET_INTERVAL = 1.0
"""Seconds between two writes. Buckets limit writes to the same object to one per second."""


def open_destination(folder: str, stem: str, *, exclusive: bool = False) -> LocalFile | BucketParts:
    """Return the destination for the lines of `<stem>.jsonl` in a folder, a path or any URL that fsspec understands.

    If it is `exclusive`, a second writer gets its own file, so that the lines of two writers are not mixed.
    """
    if is_remote(folder):
        return BucketParts(folder, stem, ".jsonl")
    return LocalFile(os.path.join(local_path(folder), f"{stem}.jsonl"), exclusive=exclusive)


def is_remote(folder: str) -> bool:
    """Return whether a folder is in a bucket."""
    return "://" in folder and not folder.startswith("file://")


def local_path(folder: str) -> str:
    """Return the path of a folder that is not in a bucket."""
    return folder.removeprefix("file://")


class LocalFile:
    """A file that records are appended to. It is opened at the first write.

    Args:
        path: The file.
        exclusive: Let a second writer write to another file.
        head: Creates the first bytes of a new file. A file without a head contains lines.
    """

    interval = 0.5
    remote = False

    def __init__(
        self, path: str | os.PathLike[str], *, exclusive: bool = False, head: Callable[[], bytes] | None = None
    ) -> None:
        self._requested_path = self.path = os.fspath(path)
        self._exclusive = exclusive
        self._head = head
        self._handle: int | None = None
        self._written = 0
        """How much of the batch was written before the disk was full. The next attempt continues there."""

    def write(self, data: bytes) -> None:
        """Append whole records. After an error, call it again with the same batch: it continues where it stopped."""
        if self._handle is None:
            self._handle = self._open()
        while self._written < len(data):
            self._written += os.write(self._handle, memoryview(data)[self._written :])
        self._written = 0

    def after_fork(self) -> None:
        """Leave the file and its lock to the parent process."""
        self.close()
        self.path = self._requested_path

    def close(self) -> None:
        """Close the file."""
        if self._handle is not None:
            with suppress(OSError):
                os.close(self._handle)
        self._handle = None
        self._written = 0

    def __str__(self) -> str:
        return self.path

    def _open(self) -> int:
        os.makedirs(os.path.dirname(self.path) or ".", exist_ok=True)
        handle = _open_to_append(self.path)
        if self._exclusive and not _lock(handle):
            os.close(handle)
            self.path = f"{os.path.splitext(self._requested_path)[0]}.{writer_name()}.jsonl"
            handle = _open_to_append(self.path)
        if self._head is not None:
            os.write(handle, self._head())
        elif _ends_within_line(self.path):
            os.write(handle, b"\n")
        return handle


class BucketParts:
    """Numbered objects `<stem>.<writer>.<number><suffix>`, because objects cannot be appended to.

    Each write uploads the whole current part, until it is complete and the next one starts. The writer's name starts
    with the time, so that names sort in the order of writing.
    """

    interval = BUCKET_INTERVAL
    remote = True

    def __init__(self, folder: str, stem: str, suffix: str, head: Callable[[], bytes] = bytes) -> None:
        self._folder = folder.rstrip("/")
        self._stem = stem
        self._suffix = suffix
        self._head = head
        self._reset()

    def _reset(self) -> None:
        self._writer = writer_name()
        self._filesystem: Any = None
        self._part = self._head()
        self._number = 0

    def write(self, data: bytes) -> None:
        """Upload the current part with these records appended."""
        if self._filesystem is None:
            import fsspec

            self._filesystem = fsspec.core.url_to_fs(self._folder)[0]
        part = self._part + data
        name = f"{self._folder}/{self._stem}.{self._writer}.{self._number:05d}{self._suffix}"
        self._filesystem.pipe_file(name, part)
        self._part = part
        if len(part) >= PART_BYTES:
            self._part = self._head()
            self._number += 1

    def after_fork(self) -> None:
        """Start new parts. The threads of a storage client do not survive a fork."""
        self._reset()

    def close(self) -> None:
        """Do nothing: nothing stays open between writes."""

    def __str__(self) -> str:
        return f"{self._folder}/{self._stem}.{self._writer}.*{self._suffix}"


def writer_name() -> str:
    """Return a unique name that sorts by time: `20260102T030405123456-host-17`."""
    import re  # here, and `socket` too: what importing this package costs is paid by every training program
    import socket

    now = time.time()
    moment = time.strftime("%Y%m%dT%H%M%S", time.gmtime(now)) + f"{int(now % 1 * 1e6):06d}"
    host = re.sub(r"[^A-Za-z0-9-]", "-", socket.gethostname())[:40]
    return f"{moment}-{host}-{os.getpid()}"


def _open_to_append(path: str) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0), 0o644)


def _lock(handle: int) -> bool:
    """Try to become the only writer of a file. Returns True on file systems without locks, too."""
    try:
        import fcntl
    except ImportError:
        return True
    with suppress(OSError):  # the file system does not support locks
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def _ends_within_line(path: str) -> bool:
    """Return whether the last line is incomplete, because an earlier writer was killed."""
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        if not size:
            return False
        file.seek(-1, os.SEEK_END)
        return file.read(1) != b"\n"
