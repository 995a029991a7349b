"""One way to open, list and write files, on this machine or in a bucket.

A path is a plain path, a `file://` URL or any URL that fsspec understands (`gs://bucket/folder`). Local files do not
go through fsspec, so a laptop does not pay for bucket support.
"""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from ml_metrics import buckets
from ml_metrics.buckets import MISSING, errors_naming
from ml_metrics.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EOPNOTSUPP, errno.EMLINK}
"""Errors of file systems without hard links."""


@dataclass(frozen=True, slots=True)
class File:
    """A file in a listing."""

    path: str
    """The argument for `open_read`."""
    name: str
    """The path relative to the listed folder, with `/`."""
    size: int


def is_local(path: str) -> bool:
    """Return whether this is a plain path or a `file://` URL."""
    return "://" not in path or path.startswith("file://")


def local_path(path: str) -> Path:
    """Return a local path as a `Path`."""
    return Path(path.removeprefix("file://"))


def join(path: str, *names: str) -> str:
    """Append names to a path."""
    return "/".join([path.rstrip("/"), *(name.strip("/") for name in names)])


def _raise(message: str) -> None:
    raise StorageError(message)


def list_files(path: str, on_unreadable: Callable[[str], None] = _raise) -> list[File]:
    """List every file below a folder, at any depth, sorted by name. A folder that does not exist has no files.

    Links to files are followed, unless the file is listed anyway. Links to folders are not, because they can form a
    cycle or list a file twice.
    `on_unreadable` is called with a message for each subfolder that cannot be listed; by default that raises.
    """
    if is_local(path):
        files = list(_local_files(local_path(path), on_unreadable))
    else:
        files = [File(*found) for found in buckets.find_files(path)]
    return sorted(files, key=lambda file: file.name)


def open_read(path: str) -> IO[bytes]:
    """Open a file for reading bytes. The caller closes it."""
    if not is_local(path):
        return buckets.open_read(path)
    with errors_naming(path, "cannot be read"):
        return local_path(path).open("rb")


def read_bytes(path: str) -> bytes:
    """Read a whole file. Raises `FileMissingError` if it does not exist; in a bucket this is a single request."""
    if not is_local(path):
        return buckets.read(path)
    with open_read(path) as file:
        return file.read()


def exists(path: str) -> bool:
    """Return whether a file exists. False for folders."""
    if not is_local(path):
        return buckets.exists(path)
    with errors_naming(path, "cannot be checked"):
        return local_path(path).is_file()


def write_bytes(path: str, data: bytes) -> None:
    """Write a whole file. Readers see the old content or the new, never a part, even after `kill -9`."""
    if not is_local(path):
        buckets.write(path, data)
        return
    with errors_naming(path, "cannot be written"):
        _replace_local(local_path(path), data)


def create_bytes(path: str, data: bytes) -> bool:
    """Write a whole file unless it exists. Of several processes that call this, exactly one gets True."""
    if not is_local(path):
        return buckets.create(path, data)
    with errors_naming(path, "cannot be written"):
        return _create_local(local_path(path), data)


def make_folder(path: str) -> None:
    """Create a folder and its parents. Does nothing in buckets, which need no folders."""
    if not is_local(path):
        return
    with errors_naming(path, "the folder cannot be created"):
        local_path(path).mkdir(parents=True, exist_ok=True)


def move(source: str, target: str) -> None:
    """Move one file, creating the parent folders of the target."""
    if not is_local(source):
        buckets.move(source, target)
        return
    with errors_naming(source, f"cannot be moved to {target}"):
        local_path(target).parent.mkdir(parents=True, exist_ok=True)
        local_path(source).replace(local_path(target))


def remove(path: str) -> None:
    """Remove a file, if it exists."""
    if not is_local(path):
        buckets.remove(path)
        return
    with errors_naming(path, "cannot be removed"):
        local_path(path).unlink(missing_ok=True)


def _local_files(folder: Path, on_unreadable: Callable[[str], None]) -> Iterator[File]:
    def report(error: OSError) -> None:
        if error.errno not in MISSING:
            on_unreadable(f"{error.filename}: cannot be listed: {error.strerror}")

    found: dict[tuple[int, int], list[File]] = {}
    for parent, _, names in os.walk(folder, onerror=report):
        for name in names:
            path = Path(parent, name)
            try:
                status = path.stat()
            except OSError as error:
                report(error)
                continue
            if stat.S_ISREG(status.st_mode):  # opening a named pipe would wait for its writer
                file = File(str(path), path.relative_to(folder).as_posix(), status.st_size)
                found.setdefault((status.st_dev, status.st_ino), []).append(file)
    for same in found.values():
        if len(same) > 1:
            same.sort(key=lambda file: file.name)
            yield from [file for file in same if not Path(file.path).is_symlink()] or same[:1]
        else:
            yield from same


def _replace_local(path: Path, data: bytes) -> None:
    with _temporary(path, data) as temporary:
        temporary.replace(path)


def _create_local(path: Path, data: bytes) -> bool:
    with _temporary(path, data) as temporary:
        try:
            path.hardlink_to(temporary)
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno not in NO_LINKS:
                raise
            return _create_without_link(path, data)
        return True


def _create_without_link(path: Path, data: bytes) -> bool:
    """Write a file on a file system without hard links, such as a mounted bucket."""
    try:
        with path.open("xb") as file:
            file.write(data)
    except FileExistsError:
        return False
    return True


@contextmanager
def _temporary(path: Path, data: bytes) -> Iterator[Path]:
    """Write the data to a file beside a path. It is removed at the end, unless it was moved."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(0o644)
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)
