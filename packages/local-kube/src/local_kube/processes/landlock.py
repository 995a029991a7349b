"""Landlock: a process gives up access to files, for itself and for everything that it starts (Linux 5.13 or newer).

Standard library only: the shim, which starts with every container, imports it.
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
"""The system calls, whose numbers are the same on every architecture."""
VERSION_FLAG, PATH_BENEATH = 1, 1
PR_SET_NO_NEW_PRIVS = 38
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
MAKE_CHAR, MAKE_BLOCK = 1 << 6, 1 << 11
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
READ = EXECUTE | READ_FILE | READ_DIR
NEVER = MAKE_CHAR | MAKE_BLOCK
ON_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
SINCE = {REFER: 2, TRUNCATE: 3, IOCTL_DEV: 5}
"""Rights that older kernels do not know."""
SCOPES_SINCE, SCOPES = 6, 0b11
"""No signals to processes outside, and no connections to their abstract sockets."""
NETWORK_SINCE = 4


def version() -> int:
    """Return which Landlock the kernel has; 0 if it has none, or it is turned off."""
    return max(0, _syscall(CREATE_RULESET, None, 0, VERSION_FLAG)) if sys.platform == "linux" else 0


class Ruleset:
    """What a process may still do with files. Paths are looked up when they are added."""

    def __init__(self) -> None:
        self._version = version()
        self._rights = sum(1 << bit for bit in range(16) if self._version >= SINCE.get(1 << bit, 1))
        scopes = SCOPES if self._version >= SCOPES_SINCE else 0
        size = 24 if self._version >= SCOPES_SINCE else 16 if self._version >= NETWORK_SINCE else 8
        attributes = struct.pack("=QQQ", self._rights, 0, scopes)[:size]
        self._handle = checked(_syscall(CREATE_RULESET, attributes, size, 0))

    def allow_reading(self, paths: Iterable[str]) -> None:
        """Allow to read and to execute what is at or below the paths. A path that does not exist is left out."""
        self._allow(paths, READ)

    def allow_writing(self, paths: Iterable[str]) -> None:
        """Allow everything at or below the paths, except to make devices."""
        self._allow(paths, self._rights & ~NEVER)

    def enforce(self) -> None:
        """Restrict this process. Nothing lifts that again."""
        checked(ctypes.CDLL(None, use_errno=True).prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        checked(_syscall(RESTRICT_SELF, self._handle, 0))
        os.close(self._handle)

    def _allow(self, paths: Iterable[str], rights: int) -> None:
        for path in paths:
            with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
                handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
                try:
                    on_this = rights if stat.S_ISDIR(os.fstat(handle).st_mode) else rights & ON_FILES
                    rule = struct.pack("=Qi", on_this & self._rights, handle)
                    checked(_syscall(ADD_RULE, self._handle, PATH_BENEATH, rule, 0))
                finally:
                    os.close(handle)


def checked(result: int) -> int:
    """Return the result of a system call; raise OSError if it failed."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"the container cannot be confined: {os.strerror(number)}")
    return result


def _syscall(number: int, *arguments: bytes | int | None) -> int:
    call = ctypes.CDLL(None, use_errno=True).syscall
    call.restype = ctypes.c_long
    wide = (ctypes.c_long(one) if isinstance(one, int) else one for one in arguments)
    return int(call(ctypes.c_long(number), *wide))
