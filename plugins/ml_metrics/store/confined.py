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
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
ON_THE_WAY = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""A folder that is passed need not be readable."""
FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
"""Without O_NONBLOCK, opening a named pipe would wait for its writer."""
NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EOPNOTSUPP, errno.EMLINK}
"""Errors of file systems without hard links."""
GONE = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}
"""Errors of an entry that was removed or replaced since it was listed."""
NOT_OPENED = {errno.ELOOP, errno.ENXIO, errno.ENODEV}
"""Errors of opening a link, a socket, or a device without a driver."""
TOO_MANY = "more than {:,} files, or more than {:,} letters in their names"


MANY_NAMED, LONGEST_TARGET = 20, 200


@dataclass(slots=True)
class Listing:
    """What a listing may hold, and what it has left out so far."""

    most_files: int
    """How many entries are looked at, folders included."""
    most_name_bytes: int
    most_depth: int
    skip: str = ""
    """A folder at the top that is neither listed nor counted."""
    left_out: dict[str, tuple[int, list[str]]] = field(default_factory=dict)
    """By reason, how many entries are left out, and the names of the first."""
    entries: int = 0
    name_bytes: int = 0

    def admits(self, name: str) -> bool:
        """Count a name. False if it is one too many: then nothing more is listed."""
        self.entries += 1
        self.name_bytes += len(name)
        if not self.is_full:
            return True
        self.leave_out(TOO_MANY.format(self.most_files, self.most_name_bytes), name)
        return False

    @property
    def is_full(self) -> bool:
        return self.entries > self.most_files or self.name_bytes > self.most_name_bytes

    def leave_out(self, reason: str, name: str) -> None:
        count, names = self.left_out.get(reason, (0, []))
        self.left_out[reason] = (count + 1, [*names, name] if count < MANY_NAMED else names)


def name_problem(name: str) -> str:
    """Why a name may not be used below a folder; empty if it may."""
    parts = name.split("/")
    if not name or "" in parts or "." in parts or ".." in parts:
        return "leads out of its folder"
    if any(letter < " " or "\x7f" <= letter < "\xa0" or "\ud800" <= letter <= "\udfff" for letter in name):
        return "has control characters or is not UTF-8"
    return ""


def open_file(root: str, name: str) -> IO[bytes]:
    """Open a regular file for reading."""
    with _parent(root, name) as (parent, last):
        try:
            handle = os.open(last, FILE, dir_fd=parent)
        except OSError as error:
            if error.errno in NOT_OPENED:
                raise FileNotFoundError(errno.ENOENT, "it is a link, a socket or a device, not a file") from error
            raise
    return regular_file(handle)


def regular_file(handle: int) -> IO[bytes]:
    """The file of a handle, which is closed if it is not a regular one."""
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


def create_file(root: str, name: str, data: bytes) -> bool:
    """Of several processes that call this, exactly one gets True."""
    with _parent(root, name, create=True) as (parent, last), _temporary(parent, last, data) as temporary:
        try:
            os.link(temporary, last, src_dir_fd=parent, dst_dir_fd=parent, follow_symlinks=False)
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno not in NO_LINKS:
                raise
            return _create_without_link(parent, last, data)
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
def opened_folder(root: str, name: str) -> Iterator[int]:
    """Give a handle with which a folder can be listed."""
    with _folder(root, name) as folder:
        handle = os.open(".", FOLDER, dir_fd=folder)
    try:
        yield handle
    finally:
        os.close(handle)


def remove_folder(root: str, name: str) -> None:
    with _parent(root, name) as (parent, last):
        os.rmdir(last, dir_fd=parent)


def list_below(
    root: str, below: str, listing: Listing, on_unreadable: Callable[[str, OSError], None]
) -> Iterator[tuple[str, int]]:
    """Yield the name, relative to `below`, and the size of each regular file. Nothing, if there is no such folder."""
    try:
        with _folder(root, below) as folder:
            handle = os.open(".", FOLDER, dir_fd=folder)
    except OSError as error:
        if error.errno not in GONE:
            on_unreadable("", error)
        return
    yield from _entries(handle, "", 1, listing, on_unreadable)


def subfolders(root: str, below: str, most: int) -> list[str]:
    """The names of the folders in a folder; of more than `most` entries, those that are found first."""
    try:
        with opened_folder(root, below) as handle, os.scandir(handle) as entries:
            return [
                entry.name
                for entry in islice(entries, most)
                if entry.is_dir(follow_symlinks=False) and not name_problem(entry.name)
            ]
    except OSError as error:
        if error.errno in GONE:
            return []
        raise


def _entries(
    folder: int, prefix: str, depth: int, listing: Listing, on_unreadable: Callable[[str, OSError], None]
) -> Iterator[tuple[str, int]]:
    """Yield the files of a folder, then those of its folders. Closes the handle."""
    folders: list[str] = []
    try:
        with os.scandir(folder) as entries:
            yield from _files(entries, folder, prefix, listing, on_unreadable, folders)
        for own in folders:
            if listing.is_full:
                return
            if depth >= listing.most_depth:
                listing.leave_out(f"more than {listing.most_depth} folders deep", f"{prefix}{own}")
                continue
            try:
                inner = os.open(own, FOLDER, dir_fd=folder)
            except OSError as error:
                if error.errno not in GONE:
                    on_unreadable(f"{prefix}{own}", error)
                continue
            yield from _entries(inner, f"{prefix}{own}/", depth + 1, listing, on_unreadable)
    finally:
        os.close(folder)


def _files(  # noqa: PLR0917  (the state of a listing)
    entries: Iterable[os.DirEntry[str]],
    folder: int,
    prefix: str,
    listing: Listing,
    on_unreadable: Callable[[str, OSError], None],
    folders: list[str],
) -> Iterator[tuple[str, int]]:
    """Yield the files among the entries of a folder, and add its folders to the list."""
    for entry in entries:
        name = f"{prefix}{entry.name}"
        if name == listing.skip:
            continue
        if not listing.admits(name):
            return
        if problem := name_problem(entry.name):
            listing.leave_out(f"the name {problem}", name)
            continue
        try:
            status = entry.stat(follow_symlinks=False)
        except OSError as error:
            if error.errno not in GONE:
                on_unreadable(name, error)
            continue
        if stat.S_ISREG(status.st_mode):
            yield name, status.st_size
        elif stat.S_ISDIR(status.st_mode):
            folders.append(entry.name)
        else:
            target = _target(entry.name, folder) if stat.S_ISLNK(status.st_mode) else ""
            listing.leave_out("not a regular file (links are not followed)", f"{name}{target}")


def _target(link: str, folder: int) -> str:
    with suppress(OSError):
        return f" -> {os.readlink(link, dir_fd=folder)[:LONGEST_TARGET]}"
    return ""


@contextmanager
def _parent(root: str, name: str, *, create: bool = False) -> Iterator[tuple[int, str]]:
    """Give a handle of the folder that the name is in, and the last part of the name."""
    above, _, last = name.rpartition("/")
    if problem := name_problem(name):
        raise OSError(errno.EINVAL, f"the name {problem}")
    with _folder(root, above, create=create) as handle:
        yield handle, last


@contextmanager
def _folder(root: str, name: str, *, create: bool = False) -> Iterator[int]:
    """Give a handle of a folder below the root; of the root itself, if the name is empty."""
    if name and (problem := name_problem(name)):
        raise OSError(errno.EINVAL, f"the name {problem}")
    if create:
        Path(root).mkdir(parents=True, exist_ok=True)
    handle = os.open(root, ON_THE_WAY & ~os.O_NOFOLLOW)
    try:
        for part in filter(None, name.split("/")):
            if create:
                with suppress(FileExistsError):
                    os.mkdir(part, dir_fd=handle)
            inner = os.open(part, ON_THE_WAY, dir_fd=handle)
            os.close(handle)
            handle = inner
        yield handle
    finally:
        os.close(handle)


@contextmanager
def _temporary(parent: int, name: str, data: bytes, mode: int | None = None) -> Iterator[str]:
    """Write the data to a file beside another. It is removed at the end, unless it was moved."""
    temporary = f".{name[:40]}.{secrets.token_hex(8)}"
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644, dir_fd=parent)
    try:
        with os.fdopen(handle, "wb") as file:
            if mode is not None:
                os.fchmod(handle, mode)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        yield temporary
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=parent)


def _create_without_link(parent: int, name: str, data: bytes) -> bool:
    """Write a file on a file system without hard links, such as a mounted bucket."""
    try:
        handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644, dir_fd=parent)
    except FileExistsError:
        return False
    with os.fdopen(handle, "wb") as file:
        file.write(data)
    return True


BLOCK = 512
"""The unit of `st_blocks`, on every file system."""
MOST_HANDLES = 32
"""How many folders inside each other are open at the same time."""
FOLDERS_AT_ONCE = 1000
"""How many names of folders are kept in memory."""
CHECKED_EVERY = 256
"""After how many files the time is looked at."""
ALL_RIGHTS = 0o700
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


def usage_below(root: str, name: str, *, most_entries: int, most_depth: int) -> Usage:
    look = _Look(most_entries, most_depth)
    try:
        with opened_folder(root, name) as top:
            look.into(top, 1)
    except OSError as error:
        if error.errno not in GONE:
            look.usage.problem = f"it cannot be read: {error.strerror}"
    return look.usage


def remove_below(root: str, name: str, is_late: Callable[[], bool]) -> Usage:
    """Remove a folder with all that is in it, and return what was removed. `problem` says why something is left.

    Another call continues what a killed one began, or one that was late.
    """
    removed = Usage()
    try:
        with opened_folder(root, name) as top:
            _own(top)
            _Removal(top, os.fstat(top).st_dev, removed, is_late).empty(top, 1)
        remove_folder(root, name)
    except OSError as error:
        if error.errno not in GONE:
            removed.problem = NO_TIME if is_late() else removed.problem or _reason(error)
    else:
        removed.problem = ""
    return removed


@dataclass(slots=True)
class _Look:
    left: int
    """How many more entries are looked at."""
    most_depth: int
    usage: Usage = field(default_factory=Usage)

    def into(self, folder: int, depth: int) -> None:
        """Add what is in a folder, and in the folders below it."""
        if depth > self.most_depth:
            self.usage.problem = f"it has folders more than {self.most_depth} deep"
            return
        folders: list[str] = []
        with os.scandir(folder) as entries:
            for entry in entries:
                self.left -= 1
                if self.left < 0:
                    self.usage.problem = "it has more files than are counted"
                    break
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.name)
                else:
                    _count(entry, self.usage)
        for own in folders:
            try:
                inner = os.open(own, FOLDER, dir_fd=folder)
            except OSError as error:
                if error.errno not in GONE:
                    self.usage.problem = f"a folder in it cannot be read: {error.strerror}"
                continue
            try:
                self.into(inner, depth + 1)
            finally:
                os.close(inner)


@dataclass(frozen=True, slots=True)
class _Removal:
    top: int
    device: int
    removed: Usage
    is_late: Callable[[], bool]

    def empty(self, folder: int, depth: int) -> None:
        """Remove what is in a folder, until nothing is or nothing more can be."""
        kept: set[str] = set()
        while folders := self._remove_files(folder, kept):
            for name in folders:
                if self.is_late():
                    return
                try:
                    self._remove_folder(folder, name, depth)
                except OSError as error:
                    if error.errno not in GONE:
                        self.removed.problem = self.removed.problem or _reason(error)
                        kept.add(name)

    def _remove_folder(self, folder: int, name: str, depth: int) -> None:
        """Remove a folder in a folder, or move it to the top if it is deep."""
        inner = _opened(folder, name)
        try:
            if os.fstat(inner).st_dev != self.device:
                raise OSError(0, "another file system is mounted in it")
            if depth < MOST_HANDLES:
                self.empty(inner, depth + 1)
        finally:
            os.close(inner)
        if depth < MOST_HANDLES:
            os.rmdir(name, dir_fd=folder)
        else:
            os.rename(name, secrets.token_hex(8), src_dir_fd=folder, dst_dir_fd=self.top)

    def _remove_files(self, folder: int, kept: set[str]) -> list[str]:
        """Remove the files of a folder, and return the names of some of its folders, without those that are kept."""
        folders: list[str] = []
        with os.scandir(folder) as entries:
            for number, entry in enumerate(entries):
                if len(folders) >= FOLDERS_AT_ONCE or (number % CHECKED_EVERY == 0 and self.is_late()):
                    break
                if not entry.is_dir(follow_symlinks=False):
                    self._remove_file(folder, entry)
                elif entry.name not in kept:
                    folders.append(entry.name)
        return folders

    def _remove_file(self, folder: int, entry: os.DirEntry[str]) -> None:
        own = Usage()
        _count(entry, own)
        try:
            os.unlink(entry.name, dir_fd=folder)
        except OSError as error:
            if error.errno not in GONE:
                self.removed.problem = self.removed.problem or _reason(error)
        else:
            self.removed.add(own)


def _opened(parent: int, name: str) -> int:
    """The handle of a folder that may have been made unreadable, with the right to change it."""
    try:
        handle = os.open(name, FOLDER, dir_fd=parent)
    except PermissionError:
        closed = os.open(name, ON_THE_WAY, dir_fd=parent)
        try:
            os.chmod(f"/proc/self/fd/{closed}", ALL_RIGHTS)  # noqa: PTH101  (of the folder that is open, not of a name)
        finally:
            os.close(closed)
        handle = os.open(name, FOLDER, dir_fd=parent)
    _own(handle)
    return handle


def _own(folder: int) -> None:
    """Give oneself all rights on a folder, if it is one's own."""
    status = os.fstat(folder)
    if status.st_uid == os.geteuid() and status.st_mode & ALL_RIGHTS != ALL_RIGHTS:
        with suppress(OSError):
            os.fchmod(folder, stat.S_IMODE(status.st_mode) | ALL_RIGHTS)


def _count(entry: os.DirEntry[str], usage: Usage) -> None:
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError:  # it was removed meanwhile
        return
    usage.files += 1
    usage.bytes += min(status.st_size, status.st_blocks * BLOCK) // max(1, status.st_nlink)


def _reason(error: OSError) -> str:
    return f"some of it cannot be removed: {error.strerror or error}"
