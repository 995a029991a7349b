"""The size of a folder on a disk, and its removal, where somebody else may have written anything into it.

No link is followed, no other file system is entered, and neither depth nor number of files needs more memory or more
open handles: folders that are deep in others are moved to the top before they are emptied.
"""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ml_metrics.confined import FOLDER, GONE, ON_THE_WAY, opened_folder, remove_folder

if TYPE_CHECKING:
    from collections.abc import Callable

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
        """Add what is in another folder."""
        self.files += other.files
        self.bytes += other.bytes
        self.problem = self.problem or other.problem


def usage_below(root: str, name: str, *, most_entries: int, most_depth: int) -> Usage:
    """Return what is in a folder, as far as it is looked at."""
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
    """Adds up what is in a folder."""

    left: int
    """How many more entries are looked at."""
    most_depth: int
    usage: Usage = field(default_factory=Usage)

    def into(self, folder: int, depth: int) -> None:
        """Add what is in a folder, and in the folders below it."""
        if depth > self.most_depth:
            self.usage.problem = f"it has folders more than {self.most_depth} deep"
            return
        for own in self._files_of(folder):
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

    def _files_of(self, folder: int) -> list[str]:
        """Count the files of a folder, and return the names of its folders."""
        folders = []
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
        return folders


@dataclass(frozen=True, slots=True)
class _Removal:
    """Empties a folder."""

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
    """Return the handle of a folder that may have been made unreadable, with the right to change it."""
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
