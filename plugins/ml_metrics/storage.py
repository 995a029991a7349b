"""One way to open, list and write files, on this machine or in a bucket.

A place is a plain path, `file://...` or any address that fsspec knows (`gs://bucket/folder`). Local files are
handled directly, so that a laptop pays nothing for buckets.
"""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from ml_metrics import buckets
from ml_metrics.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


GONE = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}
"""What a listing meets where there is no file: its writer removed it while we looked, or a link leads nowhere."""


@dataclass(frozen=True, slots=True)
class File:
    """A file in a listing."""

    path: str
    """Where it is: hand it to `open_read`."""
    name: str
    """Its path below the listed folder, with `/`."""
    size: int


def is_local(place: str) -> bool:
    """True for a plain path or a `file://` address."""
    return "://" not in place or place.startswith("file://")


def local_path(place: str) -> Path:
    """The path of a local place."""
    return Path(place.removeprefix("file://"))


def join(place: str, *names: str) -> str:
    """A place below a place."""
    return "/".join([place.rstrip("/"), *(name.strip("/") for name in names)])


def _refuse(message: str) -> None:
    raise StorageError(message)


def list_files(place: str, unreadable: Callable[[str], None] = _refuse) -> list[File]:
    """Every file below a folder, at any depth, sorted by name. A folder that is not there has none.

    Links to files are followed, links to folders are not: they may lead in a circle, or to what is listed already.
    `unreadable` is told of a folder inside that must not be listed; by default that is an error.
    """
    if is_local(place):
        found = list(_local_files(local_path(place), unreadable))
    else:
        found = [File(*one) for one in buckets.found_below(place)]
    return sorted(found, key=lambda file: file.name)


def open_read(place: str) -> IO[bytes]:
    """Open for reading bytes. The caller closes it."""
    if not is_local(place):
        return buckets.open_read(place)
    try:
        return local_path(place).open("rb")
    except OSError as error:
        raise StorageError(f"{place}: cannot be read: {error.strerror or error}") from error


def read_bytes(place: str) -> bytes:
    """A whole file."""
    with open_read(place) as file:
        return file.read()


def exists(place: str) -> bool:
    """Whether there is a file."""
    if not is_local(place):
        return buckets.exists(place)
    try:
        return local_path(place).is_file()
    except OSError as error:
        raise StorageError(f"{place}: cannot be looked at: {error.strerror or error}") from error


def write_bytes(place: str, data: bytes) -> None:
    """Write a whole file: a reader sees the old content or the new, never a part, even after kill -9."""
    if not is_local(place):
        return buckets.write(place, data)
    try:
        _replace_local(local_path(place), data)
    except OSError as error:
        raise StorageError(f"{place}: cannot be written: {error.strerror or error}") from error


def make_folder(place: str) -> None:
    """Make a folder and its parents. Buckets have none, and need none."""
    if not is_local(place):
        return
    try:
        local_path(place).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"{place}: the folder cannot be made: {error.strerror or error}") from error


def move(source: str, target: str) -> None:
    """Move one file, making the folders on the way."""
    if not is_local(source):
        return buckets.move(source, target)
    try:
        local_path(target).parent.mkdir(parents=True, exist_ok=True)
        local_path(source).replace(local_path(target))
    except OSError as error:
        raise StorageError(f"{source}: cannot be moved to {target}: {error.strerror or error}") from error


def remove(place: str) -> None:
    """Remove one file. One that is not there is no error."""
    if not is_local(place):
        return buckets.remove(place)
    try:
        local_path(place).unlink(missing_ok=True)
    except OSError as error:
        raise StorageError(f"{place}: cannot be removed: {error.strerror or error}") from error


def _local_files(folder: Path, unreadable: Callable[[str], None]) -> Iterator[File]:
    def tell(error: OSError) -> None:
        if error.errno not in GONE:
            unreadable(f"{error.filename}: cannot be listed: {error.strerror}")

    for parent, _, names in os.walk(folder, onerror=tell):
        for name in names:
            path = Path(parent, name)
            try:
                found = path.stat()
            except OSError as error:
                tell(error)
                continue
            if stat.S_ISREG(found.st_mode):  # whoever opens a named pipe waits for its writer
                yield File(str(path), path.relative_to(folder).as_posix(), found.st_size)


def _replace_local(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
