"""What the process of a container gives up before its program starts: the rights of root, and access to files.

Standard library only: the shim, which starts with every container, imports it.
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct
from typing import TYPE_CHECKING, Any

from local_kube.processes.landlock import Ruleset

if TYPE_CHECKING:
    from collections.abc import Mapping

PR_SET_KEEPCAPS, PR_CAPBSET_DROP, PR_CAP_AMBIENT, AMBIENT_RAISE = 8, 24, 47, 2
CAPABILITIES_VERSION = 0x20080522
DAC_READ_SEARCH = 2
MAX_CAPABILITIES = 64


def confine(confinement: Mapping[str, Any]) -> None:
    """Confine this process and everything that it will start, for good.

    `read` and `write` are the paths that it may still reach, and `uid` is the user that it becomes.
    """
    rules = Ruleset()
    rules.allow_reading(confinement["read"])
    rules.allow_writing(confinement["write"])
    if confinement.get("uid"):
        _become(int(confinement["uid"]))
    rules.enforce()


def _become(uid: int) -> None:
    """Become another user with a group of its own, and give up every right of root but one.

    The one is to pass folders that this user could not read, such as root's home with the interpreter below it. Which
    files that opens is for the rules to say, which are in force before the program starts.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    for number in range(MAX_CAPABILITIES):
        if number != DAC_READ_SEARCH:
            libc.prctl(PR_CAPBSET_DROP, number, 0, 0, 0)  # fails behind the last one that the kernel has
    libc.prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0)
    for output in (1, 2):  # so that the program can open /dev/stderr
        if stat.S_ISFIFO(os.fstat(output).st_mode):
            os.fchown(output, uid, uid)
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    kept = 1 << DAC_READ_SEARCH
    header, sets = struct.pack("=Ii", CAPABILITIES_VERSION, 0), struct.pack("=IIIIII", kept, kept, kept, 0, 0, 0)
    if libc.capset(header, sets) or libc.prctl(PR_CAP_AMBIENT, AMBIENT_RAISE, DAC_READ_SEARCH, 0, 0):
        raise OSError(ctypes.get_errno(), "the container cannot give up the rights of root")
