"""Files on a disk below a folder in which others may write, such as a workload in its run folder.

No function here follows a link below the folder, opens anything except a regular file, or leaves the folder, even if
another process swaps a file for a link at that moment: every part of a name is opened from the handle of the folder
above it. The folder itself is trusted, and may be reached through links.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import IO

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
ON_THE_WAY = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""A folder that is passed need not be readable."""
FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
"""Without O_NONBLOCK, opening a named pipe would wait for its writer."""
NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EOPNOTSUPP, errno.EMLINK}
"""Errors of file systems without hard links, such as a mounted bucket."""
GONE = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}
"""Errors of an entry that was removed or replaced since it was listed."""


@dataclass(frozen=True, slots=True)
class ListingLimits:
    """How much of a folder is listed: a workload may write any number of files."""

    files: int = 100_000
    """Entries, folders included."""
    name_bytes: int = 32 << 20
    """The length of all names together."""
    depth: int = 64
    """Folders in folders."""


@dataclass(slots=True)
class Listing:
    """What a listing may hold, and what it has left out so far."""

    most: ListingLimits
    skip: str = ""
    """A folder at the top that is neither listed nor counted."""
    any_name: bool = False
    left_out: dict[str, tuple[int, list[str]]] = field(default_factory=dict)
    """By reason, how many entries are left out, and the names of the first."""
    entries: int = 0
    name_bytes: int = 0

    def admits(self, name: str) -> bool:
        """Count a name. False if it is one too many: then nothing more is listed."""
        self.entries += 1
        self.name_bytes += len(name)
        if self.is_full:
            most = self.most
            what = f"more than {most.files:,} files, or more than {most.name_bytes:,} letters in their names"
            self.leave_out(what, name)
        return not self.is_full

    @property
    def is_full(self) -> bool:
        return self.entries > self.most.files or self.name_bytes > self.most.name_bytes

    def leave_out(self, reason: str, name: str) -> None:
        count, names = self.left_out.get(reason, (0, []))
        self.left_out[reason] = (count + 1, [*names, name][:20])


def name_problem(name: str) -> str:
    """Why a name may not be used below a folder; empty if it may."""
    if not {"", ".", ".."}.isdisjoint(name.split("/")):
        return "leads out of its folder"
    if any(letter < " " or "\x7f" <= letter < "\xa0" or "\ud800" <= letter <= "\udfff" for letter in name):
        return "has control characters or is not UTF-8"
    return ""


def open_file(root: str, name: str) -> IO[bytes]:
    with _parent(root, name) as (parent, last):
        try:
            handle = os.open(last, FILE, dir_fd=parent)
        except OSError as error:
            if error.errno in {errno.ELOOP, errno.ENXIO, errno.ENODEV}:
                raise FileNotFoundError(errno.ENOENT, "it is a link, a socket or a device, not a file") from error
            raise
    return regular_file(handle)


def regular_file(handle: int) -> IO[bytes]:
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise FileNotFoundError(errno.ENOENT, "it is not a regular file")
    return os.fdopen(handle, "rb")


def is_file(root: str, name: str) -> bool:
    try:
        with _parent(root, name) as (parent, last):
            return stat.S_ISREG(os.lstat(last, dir_fd=parent).st_mode)
    except OSError as error:
        if error.errno in GONE:
            return False
        raise


def replace_file(root: str, name: str, data: bytes, mode: int | None = None) -> None:
    """Under a new inode, so that no other name of the old one sees it."""
    with _parent(root, name, create=True) as (parent, last), _temporary(parent, last, data, mode) as temporary:
        os.rename(temporary, last, src_dir_fd=parent, dst_dir_fd=parent)


def create_file(
    root: str, name: str, data: bytes, mode: int | None = None, owner: tuple[int, int] | None = None
) -> bool:
    """Of several processes that call this, exactly one gets True. The file appears complete, for its owner."""
    with _parent(root, name, create=True) as (parent, last), _temporary(parent, last, data, mode, owner) as temporary:
        try:
            os.link(temporary, last, src_dir_fd=parent, dst_dir_fd=parent, follow_symlinks=False)
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno not in NO_LINKS:
                raise
            try:
                _write_new(parent, last, data, mode, owner)
            except FileExistsError:
                return False
        return True


def move_file(root: str, name: str, target: str) -> None:
    """Creates the parent folders of the target. A link is moved as a link."""
    with _parent(root, name) as (parent, last), _parent(root, target, create=True) as (there, new):
        os.rename(last, new, src_dir_fd=parent, dst_dir_fd=there)


def remove_file(root: str, name: str) -> None:
    """Remove a file, or the link of that name, if it exists."""
    try:
        with _parent(root, name) as (parent, last):
            os.unlink(last, dir_fd=parent)
    except OSError as error:
        if error.errno not in GONE:
            raise


def make_folder(root: str, name: str) -> None:
    with _folder(root, name, create=True):
        pass


@contextmanager
def _parent(root: str, name: str, *, create: bool = False) -> Iterator[tuple[int, str]]:
    """Give a handle of the folder that the name is in, and the last part of the name."""
    above, _, last = name.rpartition("/")
    if problem := name_problem(name):
        raise OSError(errno.EINVAL, f"the name {problem}")
    with _folder(root, above, create=create) as handle:
        yield handle, last


@contextmanager
def _folder(root: str, name: str, *, create: bool = False, listed: bool = False) -> Iterator[int]:
    """Give a handle of a folder below the root; of the root itself, if the name is empty."""
    if name and (problem := name_problem(name)):
        raise OSError(errno.EINVAL, f"the name {problem}")
    if create:
        Path(root).mkdir(parents=True, exist_ok=True)
    handle = os.open(root, ON_THE_WAY & ~os.O_NOFOLLOW)
    try:
        parts = [(part, ON_THE_WAY) for part in name.split("/") if part]
        for part, flags in [*parts, *([(".", FOLDER)] if listed else [])]:
            if create:
                with suppress(FileExistsError):
                    os.mkdir(part, dir_fd=handle)
            inner = os.open(part, flags, dir_fd=handle)
            os.close(handle)
            handle = inner
        yield handle
    finally:
        os.close(handle)


@contextmanager
def _temporary(
    parent: int, name: str, data: bytes, mode: int | None = None, owner: tuple[int, int] | None = None
) -> Iterator[str]:
    """Write the data to a file beside another. It is removed at the end, unless it was moved."""
    temporary = f".{name[:40]}.{secrets.token_hex(8)}"
    try:
        _write_new(parent, temporary, data, mode, owner)
        yield temporary
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=parent)


def _write_new(parent: int, name: str, data: bytes, mode: int | None, owner: tuple[int, int] | None) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    handle = os.open(name, flags, 0o644 if mode is None else 0o600, dir_fd=parent)
    with os.fdopen(handle, "wb") as file:
        if owner is not None:
            os.fchown(handle, *owner)
        if mode is not None:
            os.fchmod(handle, mode)
        file.write(data)
        file.flush()
        os.fsync(handle)


def list_below(
    root: str, below: str, listing: Listing, on_unreadable: Callable[[str, OSError], None]
) -> Iterator[tuple[str, int]]:
    """Yield the name, relative to `below`, and the size of each regular file. Nothing, if there is no such folder."""
    for name, status, target in _entries_below(root, below, listing, on_unreadable):
        if stat.S_ISREG(status.st_mode):
            yield name, status.st_size
        else:
            listing.leave_out("not a regular file (links are not followed)", f"{name}{target}")


def subfolders(root: str, below: str, most: int) -> list[str]:
    """The names of the folders in a folder; of more than `most` entries, those that are found first."""
    try:
        with _folder(root, below, listed=True) as handle, os.scandir(handle) as entries:
            folders = [entry.name for entry in islice(entries, most) if entry.is_dir(follow_symlinks=False)]
    except OSError as error:
        if error.errno in GONE:
            return []
        raise
    return [name for name in folders if not name_problem(name)]


def _entries_below(
    root: str, below: str, listing: Listing, on_unreadable: Callable[[str, OSError], None]
) -> Iterator[tuple[str, os.stat_result, str]]:
    """Yield the name, the status and, of a link, the target of all that is not a folder."""
    try:
        with _folder(root, below, listed=True) as folder:
            yield from _entries(folder, "", 1, listing, on_unreadable)
    except OSError as error:
        if error.errno not in GONE:
            on_unreadable("", error)


def _entries(  # noqa: C901, PLR0912  (one pass over a folder)
    folder: int, prefix: str, depth: int, listing: Listing, on_unreadable: Callable[[str, OSError], None]
) -> Iterator[tuple[str, os.stat_result, str]]:
    """First those of the folder itself, then those of its folders."""
    folders: list[str] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            name = f"{prefix}{entry.name}"
            if name == listing.skip:
                continue
            if not listing.admits(name):
                return
            if not listing.any_name and (problem := name_problem(entry.name)):
                listing.leave_out(f"the name {problem}", name)
            elif entry.is_dir(follow_symlinks=False):
                folders.append(entry.name)
            else:
                try:
                    link = os.readlink(entry.name, dir_fd=folder) if entry.is_symlink() else ""
                    status = entry.stat(follow_symlinks=False)
                except OSError as error:
                    if error.errno not in GONE:
                        on_unreadable(name, error)
                    continue
                yield name, status, f" -> {link[:200]}" if link else ""
    for own in folders:
        if listing.is_full:
            return
        if depth >= listing.most.depth:
            listing.leave_out(f"folders more than {listing.most.depth} deep", f"{prefix}{own}")
            continue
        try:
            with _opened(own, folder) as inner:
                yield from _entries(inner, f"{prefix}{own}/", depth + 1, listing, on_unreadable)
        except OSError as error:
            if error.errno not in GONE:
                on_unreadable(f"{prefix}{own}", error)


@contextmanager
def _opened(name: str, parent: int, flags: int = FOLDER) -> Iterator[int]:
    handle = os.open(name, flags, dir_fd=parent)
    try:
        yield handle
    finally:
        os.close(handle)


MOST_HANDLES = 32
"""How many folders inside each other are open at the same time."""
NO_TIME = "there was no time for all of it"


@dataclass(slots=True)
class Usage:
    """What is in a folder, or was removed from it."""

    files: int = 0
    bytes: int = 0
    """The size of the files: holes count nothing, and a file of several names its share."""
    problem: str = ""
    """Why something is not counted, or not removed; empty if everything is."""

    def add(self, other: Usage) -> None:
        self.files += other.files
        self.bytes += other.bytes
        self.problem = self.problem or other.problem


def _usage_of(status: os.stat_result) -> Usage:
    return Usage(1, min(status.st_size, status.st_blocks * 512) // max(1, status.st_nlink))


def usage_below(root: str, name: str, limits: ListingLimits) -> Usage:
    listing, usage = Listing(replace(limits, name_bytes=1 << 62), any_name=True), Usage()

    def unreadable(place: str, error: OSError) -> None:
        usage.problem = f"{'a folder in it' if place else 'it'} cannot be read: {error.strerror}"

    for _, status, _ in _entries_below(root, name, listing, unreadable):
        usage.add(_usage_of(status))
    left_out = "more files than are counted" if listing.is_full else next(iter(listing.left_out), "")
    return Usage(usage.files, usage.bytes, f"it has {left_out}" if left_out else usage.problem)


def remove_below(root: str, name: str, is_late: Callable[[], bool]) -> Usage:
    """Remove a folder with all that is in it, and return what was removed. `problem` says why something is left.

    Another call continues what a killed one began, or one that was late.
    """
    usage = Usage()
    try:
        with _folder(root, name, listed=True) as top:
            _take_rights(top)
            _Removal(top, is_late, usage).empty(top)
        with _parent(root, name) as (parent, last):
            os.rmdir(last, dir_fd=parent)
    except OSError as error:
        if error.errno not in GONE:
            usage.problem = NO_TIME if is_late() else usage.problem or _reason(error)
    else:
        usage.problem = ""
    return usage


def _reason(error: OSError) -> str:
    return f"some of it cannot be removed: {error.strerror or error}"


@dataclass(frozen=True, slots=True)
class _Removal:
    top: int
    is_late: Callable[[], bool]
    usage: Usage

    def empty(self, folder: int, depth: int = 1) -> None:
        """Remove what is in a folder, until nothing is or nothing more can be. What is very deep moves to the top."""
        kept: set[str] = set()
        while folders := self._without_files(folder, kept):
            for name in folders:
                if self.is_late():
                    return
                try:
                    with _own_folder(name, folder, os.fstat(self.top).st_dev) as inner:
                        if depth >= MOST_HANDLES:
                            os.rename(name, secrets.token_hex(8), src_dir_fd=folder, dst_dir_fd=self.top)
                            continue
                        self.empty(inner, depth + 1)
                    os.rmdir(name, dir_fd=folder)
                except OSError as error:
                    self.failed(error)
                    kept.add(name)

    def _without_files(self, folder: int, kept: set[str]) -> list[str]:
        """Remove the files of a folder, and return the names of some of its folders, without those that are kept."""
        folders: list[str] = []
        with os.scandir(folder) as entries:
            for number, entry in enumerate(entries):
                if len(folders) >= 1000 or (number % 256 == 0 and self.is_late()):
                    break
                if entry.is_dir(follow_symlinks=False):
                    folders += [] if entry.name in kept else [entry.name]
                    continue
                try:
                    usage = _usage_of(entry.stat(follow_symlinks=False))
                    os.unlink(entry.name, dir_fd=folder)
                    self.usage.add(usage)
                except OSError as error:
                    self.failed(error)
        return folders

    def failed(self, error: OSError) -> None:
        if error.errno not in GONE:
            self.usage.problem = self.usage.problem or _reason(error)


@contextmanager
def _own_folder(name: str, parent: int, device: int) -> Iterator[int]:
    """Open a folder that may have been made unreadable, with the right to change it."""
    try:
        handle = os.open(name, FOLDER, dir_fd=parent)
    except PermissionError:
        with _opened(name, parent, ON_THE_WAY) as closed:
            os.chmod(f"/proc/self/fd/{closed}", 0o700)  # noqa: PTH101  (of the folder that is open, not of a name)
        handle = os.open(name, FOLDER, dir_fd=parent)
    try:
        if os.fstat(handle).st_dev != device:
            raise OSError(0, "another file system is mounted in it")
        _take_rights(handle)
        yield handle
    finally:
        os.close(handle)


def _take_rights(folder: int) -> None:
    status = os.fstat(folder)
    if status.st_uid == os.geteuid() and ~status.st_mode & 0o700:
        with suppress(OSError):
            os.fchmod(folder, stat.S_IMODE(status.st_mode) | 0o700)
