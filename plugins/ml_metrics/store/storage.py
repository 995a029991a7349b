"""One way to open, list and write files, on this machine or in a bucket.

A path is a plain path, a `file://` URL or any URL that fsspec understands (`gs://bucket/folder`). Local files do not
go through fsspec, so a laptop does not pay for bucket support.

The functions take a path that a user, a setting or the product itself has chosen. For what is below a folder in which
others may write there is `Folder`: a name in it never leads out of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeVar

from ml_metrics.core.errors import StorageError, TooLargeError
from ml_metrics.core.text import logger_of
from ml_metrics.store import buckets, confined
from ml_metrics.store.buckets import errors_naming
from ml_metrics.store.confined import Usage

log = logger_of(__name__)
T = TypeVar("T")


ListingLimits = confined.ListingLimits
LIMITS = ListingLimits()


@dataclass(frozen=True, slots=True)
class File:
    """A file in a listing."""

    path: str
    """Where it is, for messages and links. To read it, `open` it."""
    name: str
    """The path relative to the listed folder, with `/`."""
    size: int
    """When it was listed: it may have another size now."""
    folder: Folder | None = None
    """The folder that it must be in; None for a file that a user named."""
    below: str = ""
    """The listed folder, in that one."""

    def open(self) -> IO[bytes]:
        if self.folder is None:
            return open_read(self.path)
        return self.folder.open(f"{self.below}/{self.name}" if self.below else self.name)

    def read(self, most: int) -> bytes:
        with self.open() as file:
            data = file.read(most + 1)
        if len(data) > most:
            raise TooLargeError(f"{self.path}: has more than {most:,} bytes")
        return data


def named_file(path: str) -> File:
    return File(path, path.rpartition("/")[2], 0)


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder in which somebody else may write.

    Nothing that is reached through it follows a link, opens a special file or leaves the folder. In a bucket, names
    that any reader might take for a way out are refused. The path of the folder itself is trusted.
    """

    path: str

    def open(self, name: str) -> IO[bytes]:
        return self._on(name, "cannot be read", confined.open_file, buckets.open_read)

    def read(self, name: str, most: int) -> bytes:
        """In a bucket this is a single request. Raises FileMissingError, or TooLargeError above `most` bytes."""
        if is_local(self.path):
            with self.open(name) as file:
                data = file.read(most + 1)
        else:
            data = self._on(name, "cannot be read", None, buckets.read, most + 1)
        if len(data) > most:
            raise TooLargeError(f"{self.path_of(name)}: has more than {most:,} bytes")
        return data

    def exists(self, name: str) -> bool:
        """False for folders and links."""
        return self._on(name, "cannot be checked", confined.is_file, buckets.exists)

    def write(self, name: str, data: bytes) -> None:
        """Readers see the old content or the new, never a part, even after `kill -9`."""
        self._on(name, "cannot be written", confined.replace_file, buckets.write, data)

    def create(self, name: str, data: bytes) -> bool:
        """Of several processes that call this, exactly one gets True."""
        return self._on(name, "cannot be written", confined.create_file, buckets.create, data)

    def make(self, name: str) -> None:
        """Does nothing in buckets, which need no folders."""
        if is_local(self.path):
            with errors_naming(self.path_of(name), "the folder cannot be created"):
                confined.make_folder(self._local, name)

    def remove(self, name: str) -> None:
        self._on(name, "cannot be removed", confined.remove_file, buckets.remove)

    def files(
        self,
        below: str = "",
        on_unreadable: Callable[[str], None] | None = None,
        limits: ListingLimits = LIMITS,
        skip: str = "",
    ) -> list[File]:
        """List the files below a folder of this one, at any depth, sorted by name. One that does not exist has none.

        What is not a regular file, has a name that leads elsewhere, or is beyond the limits is left out.

        Args:
            below: the name of the folder to list; empty for this one.
            on_unreadable: is called with a message for each folder that cannot be listed, and once for each reason
                why something is left out. By default, the first raises and the second is logged.
            limits: how much is listed.
            skip: a folder at the top that is not listed, nor counted.
        """
        place = self.path_of(below) if below else self.path
        listing = confined.Listing(limits, skip)

        def unreadable(name: str, error: OSError) -> None:
            where = join(place, name) if name else place
            (on_unreadable or _raise)(f"{local_path(where)}: cannot be listed: {error.strerror}")

        if is_local(self.path):
            found = confined.list_below(self._local, below, listing, unreadable)
            files = [File(str(local_path(join(place, name))), name, size, self, below) for name, size in found]
        else:
            files = [File(*one, self, below) for one in buckets.find_files(place, listing)]
        for reason, (count, names) in listing.left_out.items():
            shown = ", ".join(ascii(name[:300]) for name in names) + (", ..." if count > len(names) else "")
            (on_unreadable or log.warning)(f"{place}: {count:,} left out, as {reason}: {shown}")
        return sorted(files, key=lambda file: file.name)

    def subfolders(self, below: str, limits: ListingLimits = LIMITS) -> list[str]:
        place = self.path_of(below) if below else self.path
        with errors_naming(place, "cannot be listed"):
            if is_local(self.path):
                return sorted(confined.subfolders(self._local, below, limits.files))
            return sorted(buckets.subfolders(place, limits.files))

    def usage(self, name: str, limits: ListingLimits = LIMITS) -> Usage:
        """As far as it is looked at: within the limits."""
        if is_local(self.path):
            return confined.usage_below(self._local, name, limits)
        return self._on(name, "cannot be listed", None, buckets.usage_below, limits.files)

    def rename(self, name: str, target: str) -> bool:
        """Give a folder on a disk another name, whole. False if there is none, as when another process did so."""
        with errors_naming(self.path_of(name), "cannot be renamed"):
            try:
                confined.move_file(self._local, name, target)
            except FileNotFoundError:
                return False
        return True

    def remove_all(self, name: str, is_late: Callable[[], bool] = lambda: False) -> Usage:
        """Remove a folder with everything in it, and return what was removed and why something is left."""
        return self._on(name, "cannot be removed", confined.remove_below, buckets.remove_below, is_late)

    def path_of(self, name: str) -> str:
        return f"{self.path.rstrip('/')}/{name}"

    def _on(
        self, name: str, failure: str, locally: Callable[..., T] | None, in_bucket: Callable[..., T], *given: Any
    ) -> T:
        """`locally` is None if the folder is in a bucket."""
        path = self.path_of(name)
        with errors_naming(path, failure):
            if locally is not None and is_local(self.path):
                return locally(self._local, name, *given)
            if problem := buckets.object_problem(name):
                raise StorageError(f"{name[:200]!r}: the name {problem}")
        return in_bucket(path, *given)

    @property
    def _local(self) -> str:
        return str(local_path(self.path))


def relative(root: str, path: str) -> str:
    """Raises StorageError if the path is not below the root."""
    for own, above in ((path, root), (str(local_path(path)), str(local_path(root)))):
        if own.startswith(f"{above.rstrip('/')}/"):
            return own[len(above.rstrip("/")) + 1 :].strip("/")
    raise StorageError(f"{path}: is not in {root}")


def is_local(path: str) -> bool:
    return "://" not in path or path.startswith("file://")


def local_path(path: str) -> Path:
    return Path(path.removeprefix("file://"))


def join(path: str, *names: str) -> str:
    return "/".join([path.rstrip("/"), *(name.strip("/") for name in names)])


def _raise(message: str) -> None:
    raise StorageError(message)


def list_files(path: str, on_unreadable: Callable[[str], None] | None = None) -> list[File]:
    """List every file below a folder, at any depth, sorted by name. A folder that does not exist has no files.

    Links are not followed. `on_unreadable` is called with a message for each subfolder that cannot be listed; by
    default that raises.
    """
    return Folder(path).files(on_unreadable=on_unreadable)


def _anywhere(path: str, failure: str, locally: Callable[[Path], T], in_bucket: Callable[[str], T]) -> T:
    if not is_local(path):
        return in_bucket(path)
    with errors_naming(path, failure):
        return locally(local_path(path))


def open_read(path: str) -> IO[bytes]:
    """The caller closes it."""
    return _anywhere(path, "cannot be read", lambda local: local.open("rb"), buckets.open_read)


def read_bytes(path: str) -> bytes:
    """In a bucket this is a single request. Raises `FileMissingError` if the file does not exist."""
    return _anywhere(path, "cannot be read", Path.read_bytes, buckets.read)


def exists(path: str) -> bool:
    """False for folders."""
    return _anywhere(path, "cannot be checked", Path.is_file, buckets.exists)


def write_bytes(path: str, data: bytes) -> None:
    """Readers see the old content or the new, never a part, even after `kill -9`."""

    def locally(local: Path) -> None:
        confined.replace_file(str(local.parent), local.name, data)

    _anywhere(path, "cannot be written", locally, lambda url: buckets.write(url, data))


def remove(path: str) -> None:
    _anywhere(path, "cannot be removed", lambda local: local.unlink(missing_ok=True), buckets.remove)
