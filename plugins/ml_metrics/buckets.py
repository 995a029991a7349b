"""Files in buckets, through fsspec. Whatever goes wrong there is one kind of error, which names the place.

The clients of clouds raise errors of many families: gcsfs alone has OSError, HttpError, ValueError, RuntimeError and
those of google-auth and aiohttp. And fsspec's own question whether a file is there takes every error for a no.
"""

from __future__ import annotations

import io
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from ml_metrics.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Iterator


def found_below(place: str) -> Iterator[tuple[str, str, int]]:
    """Every file at any depth: its address, its name below the place, its size. A folder that is not there has none."""
    filesystem = _filesystem(place)
    root = filesystem._strip_protocol(place).rstrip("/")  # noqa: SLF001  (fsspec's way from an address to its own names)
    with _told(place, "cannot be listed"):
        try:
            found = filesystem.find(place, detail=True)
        except FileNotFoundError:
            return
    for name, about in found.items():
        yield filesystem.unstrip_protocol(name), name.removeprefix(root).lstrip("/"), int(about["size"])


def exists(place: str) -> bool:
    """Whether there is a file. Not to know is an error, not a no."""
    with _told(place, "cannot be looked at"):
        try:
            return bool(_filesystem(place).info(place)["type"] == "file")
        except FileNotFoundError:
            return False


def open_read(place: str) -> io.BufferedReader:
    """Open for reading. What goes wrong later, while it is read, is told in the same way."""
    with _told(place, "cannot be read"):
        return io.BufferedReader(_Reading(place, _filesystem(place).open(place, "rb")))


def write(place: str, data: bytes) -> None:
    """Write a whole file. An object appears only when its upload is complete."""
    with _told(place, "cannot be written"):
        _filesystem(place).pipe_file(place, data)


def move(source: str, target: str) -> None:
    """Move one file."""
    with _told(source, f"cannot be moved to {target}"):
        _filesystem(source).mv(source, target)


def remove(place: str) -> None:
    """Remove one file. One that is not there is no error."""
    with _told(place, "cannot be removed"), suppress(FileNotFoundError):
        _filesystem(place).rm_file(place)


class _Reading(io.RawIOBase):
    """An open file in a bucket."""

    def __init__(self, place: str, file: Any) -> None:
        self._place, self._file = place, file

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        with _told(self._place, "cannot be read to its end"):
            data = self._file.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        with _told(self._place, "cannot be read to its end"):
            return int(self._file.seek(offset, whence))

    def tell(self) -> int:
        return int(self._file.tell())

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


@contextmanager
def _told(place: str, what: str) -> Iterator[None]:
    try:
        yield
    except StorageError:
        raise
    except Exception as error:
        why = str(getattr(error, "strerror", None) or error).strip().partition("\n")[0]
        raise StorageError(f"{place}: {what}: {why or type(error).__name__}") from error


def _filesystem(place: str) -> Any:
    import fsspec

    try:
        # what another process wrote a moment ago is there
        return fsspec.core.url_to_fs(place, use_listings_cache=False)[0]
    except (ImportError, ValueError) as error:
        raise StorageError(f"{place}: no way to reach this kind of address: {error}") from error
