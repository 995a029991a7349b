"""What the process of a container gives up before its program starts: the rights of root, and access to files.

Standard library only: the shim, which starts with every container, imports it.
"""

from __future__ import annotations

import ctypes
import os
import resource
import stat
import struct
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from local_kube.processes.landlock import Ruleset, checked

if TYPE_CHECKING:
    from collections.abc import Mapping

PR_SET_KEEPCAPS, PR_CAPBSET_DROP, PR_CAP_AMBIENT, AMBIENT_RAISE = 8, 24, 47, 2
CAPABILITIES_VERSION = 0x20080522
DAC_OVERRIDE, DAC_READ_SEARCH = 1, 2
MAX_CAPABILITIES = 64
NEW_MOUNTS, NOSUID_NODEV, NOEXEC, RECEIVE_ONLY = 0x20000, 0b110, 0b1000, (1 << 14) | (1 << 19)
SHARED_MEMORY = "/dev/shm"  # noqa: S108  (its place in every Linux, not a temporary file)
MAX_PROCESSES = 10_000
"""Processes and threads of one user. JAX and PyTorch start a few for each core."""


def confine(confinement: Mapping[str, Any]) -> None:
    """Confine this process and everything that it will start, for good.

    `read` and `write` are the paths that it may still reach, `uid` is the user that it becomes, `umask` replaces the
    usual one, and `make` are the folders that it makes as that user: the way to them may lead through links that a
    container made.
    """
    uid, writable = confinement.get("uid"), confinement["write"]
    if uid and not _have_own_mounts():  # it could read the memory that other users share
        writable = [path for path in writable if path != SHARED_MEMORY]
    rules = Ruleset()
    rules.allow_reading(confinement["read"])
    rules.allow_writing(writable)
    if uid:
        _become(int(uid))
    else:
        _give_up_capabilities({DAC_OVERRIDE, DAC_READ_SEARCH})  # of root; other users have none
    rules.enforce()
    if confinement["umask"] is not None:
        os.umask(confinement["umask"])
    for folder in map(Path, confinement["make"]):
        if not folder.exists():
            folder.mkdir(parents=True)


def _have_own_mounts() -> bool:
    """Mount shared memory of our own, and a `/proc` without the processes of others; return whether we could."""
    try:
        libc = mount_memory(SHARED_MEMORY)
    except OSError:
        return False
    with suppress(OSError):
        checked(libc.mount(b"proc", b"/proc", b"proc", NOSUID_NODEV | NOEXEC, b"hidepid=2"))
    return True


def mount_memory(folder: str, flags: int = NOSUID_NODEV) -> ctypes.CDLL:
    """Mount memory that only this process and its children see, as they see what others mount later."""
    libc = ctypes.CDLL(None, use_errno=True)
    checked(libc.unshare(NEW_MOUNTS))
    checked(libc.mount(b"none", b"/", None, RECEIVE_ONLY, None))
    checked(libc.mount(b"tmpfs", folder.encode(), b"tmpfs", flags, b"mode=1777"))
    return libc


def _become(uid: int) -> None:
    """Become another user with a group of its own, and give up every right of root but one.

    The one is to pass folders that this user could not read, such as root's home with the interpreter below it. Which
    files that opens is for the rules to say, which are in force before the program starts.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    _give_up_capabilities({DAC_READ_SEARCH})
    libc.prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0)
    for output in (1, 2):  # so that the program can open /dev/stderr
        if stat.S_ISFIFO(os.fstat(output).st_mode):
            os.fchown(output, uid, uid)
    _, most = resource.getrlimit(resource.RLIMIT_NPROC)
    limit = MAX_PROCESSES if most == resource.RLIM_INFINITY else min(most, MAX_PROCESSES)
    resource.setrlimit(resource.RLIMIT_NPROC, (limit, limit))
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    kept = 1 << DAC_READ_SEARCH
    header, sets = struct.pack("=Ii", CAPABILITIES_VERSION, 0), struct.pack("=IIIIII", kept, kept, kept, 0, 0, 0)
    checked(libc.capset(header, sets))
    checked(libc.prctl(PR_CAP_AMBIENT, AMBIENT_RAISE, DAC_READ_SEARCH, 0, 0))


def _give_up_capabilities(kept: set[int]) -> None:
    """Let no program that is started from here on have other capabilities than those."""
    libc = ctypes.CDLL(None, use_errno=True)
    for number in set(range(MAX_CAPABILITIES)) - kept:
        libc.prctl(PR_CAPBSET_DROP, number, 0, 0, 0)  # fails behind the last one that the kernel has
