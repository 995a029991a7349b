"""Files in buckets, through fsspec. Every failure is a `StorageError` that names the path.

Cloud clients raise errors of many families: gcsfs alone raises OSError, HttpError, ValueError, RuntimeError and the
errors of google-auth and aiohttp. fsspec's own `exists` treats every one of them as "does not exist".
"""

from __future__ import annotations

import errno
import io
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from ml_metrics.core.errors import FileMissingError, StorageError
from ml_metrics.core.extras import advice
from ml_metrics.core.text import warnings_only
from ml_metrics.store.confined import NO_TIME, Listing, Usage, name_problem

MISSING = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}
"""Errors of a path without a file: it never existed, it was just removed, or it is a link with no target."""
MARGIN = 20_000
"""How many objects more are requested than are listed: some of them are documents, which do not count."""

REMOVED_AT_ONCE, PAGE = 16, 1000
"""How many objects are removed at the same time, and listed at once."""


def find_files(path: str, listing: Listing) -> Iterator[tuple[str, str, int]]:
    """Yield the path, relative name and size of every file below a folder. A folder that does not exist has none."""
    filesystem = _filesystem(path)
    root = filesystem._strip_protocol(path).rstrip("/")  # noqa: SLF001  (the only way to fsspec's form of a path)
    with errors_naming(path, "cannot be listed"):
        try:
            found = _objects(filesystem, path, listing.most.files + MARGIN)
        except FileNotFoundError:
            return
    for full_name, info in found.items():
        name = full_name.removeprefix(root).removeprefix("/")
        if listing.skip and name.startswith(f"{listing.skip}/"):
            continue
        if not listing.admits(name):
            return
        if not name or name.endswith("/"):  # what some programs write in place of a folder
            continue
        if problem := object_problem(name):
            listing.leave_out(f"the name {problem}", name)
        elif name.count("/") >= listing.most.depth:
            listing.leave_out(f"folders more than {listing.most.depth} deep", name)
        else:
            yield filesystem.unstrip_protocol(full_name), name, int(info["size"])


def object_problem(name: str) -> str:
    """Why the name of an object may not be used below a folder of a bucket; empty if it may."""
    return name_problem(name) or ("leads to another file system, as fsspec reads it" if "::" in name else "")


def subfolders(path: str, most: int) -> list[str]:
    try:
        found = _filesystem(path).ls(path, detail=True)
    except FileNotFoundError:
        return []
    names = [str(one["name"]).rstrip("/").rpartition("/")[2] for one in found[:most] if one["type"] == "directory"]
    return [name for name in names if not object_problem(name)]


def exists(path: str) -> bool:
    """Raises if the bucket does not answer, unlike fsspec's `exists`."""
    with errors_naming(path, "cannot be checked"):
        try:
            return bool(_filesystem(path).info(path)["type"] == "file")
        except FileNotFoundError:
            return False


def open_read(path: str) -> io.BufferedReader:
    """Later failures, while it is read, are `StorageError`s too."""
    with errors_naming(path, "cannot be read"):
        return io.BufferedReader(_RawFile(path, _filesystem(path).open(path, "rb")))


def read(path: str, most: int | None = None) -> bytes:
    """Read a file with one request, its beginning if it is longer. Raises `FileMissingError` if it does not exist."""
    try:
        with errors_naming(path, "cannot be read"):
            filesystem = _filesystem(path)
            return bytes(filesystem.cat_file(path) if most is None else filesystem.cat_file(path, start=0, end=most))
    except FileMissingError:
        raise
    except StorageError:
        with errors_naming(path, "cannot be read"):
            # an empty object has no range
            if most is None or _filesystem(path).info(path)["size"]:
                raise
    return b""


def write(path: str, data: bytes) -> None:
    """An object becomes visible only when its upload is complete."""
    with errors_naming(path, "cannot be written"):
        _filesystem(path).pipe_file(path, data)


def create(path: str, data: bytes) -> bool:
    """Of several processes that call this, exactly one gets True."""
    with errors_naming(path, "cannot be written"):
        try:
            _filesystem(path).pipe_file(path, data, mode="create")
        except FileExistsError:
            return False
    return True


def remove(path: str) -> None:
    with errors_naming(path, "cannot be removed"), suppress(FileNotFoundError):
        _filesystem(path).rm_file(path)


def usage_below(path: str, most: int) -> Usage:
    """How many objects are below a folder, and their size. Of more than so many, some are not looked at."""
    filesystem = _filesystem(path)
    with errors_naming(path, "cannot be listed"):
        try:
            found = _objects(filesystem, path, most + 1)
        except FileNotFoundError:
            return Usage()
    sizes = [int(info["size"]) for info in found.values()][:most]
    return Usage(len(sizes), sum(sizes), "it has more files than are counted" if len(found) > most else "")


def remove_below(path: str, is_late: Callable[[], bool]) -> Usage:
    """Remove every object below a folder, and return what was removed. `problem` says why something is left."""
    filesystem, removed = _filesystem(path), Usage()

    def remove_one(item: tuple[str, Any]) -> Usage:
        name, info = item
        try:
            with errors_naming(name, "cannot be removed"):
                filesystem.rm_file(name)
        except FileMissingError:
            return Usage()
        except StorageError as error:
            return Usage(problem=f"some of it cannot be removed: {error}")
        return Usage(1, int(info["size"]))

    with errors_naming(path, "cannot be removed"), ThreadPoolExecutor(REMOVED_AT_ONCE) as pool:
        while True:
            try:
                found = _objects(filesystem, path, PAGE)
            except FileNotFoundError:
                return removed
            if not found:
                return removed
            if is_late():
                return replace(removed, problem=NO_TIME)
            before = removed.files
            for one in pool.map(remove_one, found.items()):
                removed.add(one)
            if removed.files == before:
                return replace(removed, problem=removed.problem or "some of it cannot be removed")


class _RawFile(io.RawIOBase):
    """An open file in a bucket, whose errors name its path."""

    def __init__(self, path: str, file: Any) -> None:
        self._path, self._file = path, file

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        with errors_naming(self._path, "cannot be read to its end"):
            data = self._file.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        with errors_naming(self._path, "cannot be read to its end"):
            return int(self._file.seek(offset, whence))

    def tell(self) -> int:
        return int(self._file.tell())

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


@contextmanager
def errors_naming(path: str, failure: str) -> Iterator[None]:
    """Turn every error into a `StorageError` that names the path and the failed operation."""
    try:
        yield
    except StorageError:
        raise
    except Exception as error:  # the clients of the clouds have no errors in common
        reason = str(getattr(error, "strerror", None) or error).strip().partition("\n")[0]
        missing = isinstance(error, FileNotFoundError) or getattr(error, "errno", None) in MISSING
        kind = FileMissingError if missing else StorageError
        raise kind(f"{path}: {failure}: {reason or type(error).__name__}") from error


def _objects(filesystem: Any, path: str, most: int) -> dict[str, Any]:
    find = getattr(filesystem, "_do_list_objects", None)
    if find is None:
        found: dict[str, Any] = filesystem.find(path, detail=True)
        return found
    from fsspec.asyn import sync

    # gcsfs's own `find` has no limit, and reads a million names in minutes into gigabytes
    objects, _ = sync(filesystem.loop, find, path, max_results=most, delimiter="")
    return {one["name"]: one for one in objects}


def _filesystem(path: str) -> Any:
    import fsspec

    warnings_only("fsspec.caching")  # else one line for each file in the log of every task
    try:
        # without the cache, so that files written a moment ago by another process are listed
        return fsspec.core.url_to_fs(path, use_listings_cache=False)[0]
    except (ImportError, ValueError) as error:
        of_google = isinstance(error, ImportError) and path.startswith(("gs://", "gcs://"))
        what = f"gcsfs is not installed here; {advice('google')}" if of_google else error
        raise StorageError(f"{path}: no way to reach this kind of address: {what}") from error
