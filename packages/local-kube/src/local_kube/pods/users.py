"""The users of this machine that containers become, where the server is root."""

from __future__ import annotations

import os
import stat
import sys
import zlib
from functools import cache
from pathlib import Path

FIRST_USER, USERS = 1_900_000_000, 100_000_000
"""Users that no system gives to anybody: https://systemd.io/UIDS-GIDS."""
NEEDED_CAPABILITIES = (0, 2, 6, 7, 8, 21)
"""CHOWN, DAC_READ_SEARCH, SETGID, SETUID, SETPCAP, SYS_ADMIN."""


def user_of(owner: object) -> int | None:
    """Return the user for a pod, the same for all pods of a folder; None if this server cannot become another user."""
    if sys.platform != "linux" or os.geteuid() or not _may_become_others():
        return None
    return FIRST_USER + zlib.crc32(str(owner).encode()) % USERS


def give_to_group(folder: Path, gid: int) -> None:
    """Let a group write into a folder, and not remove what others wrote there."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        os.fchown(handle, -1, gid)
        os.fchmod(handle, stat.S_IMODE(os.fstat(handle).st_mode) | stat.S_ISVTX | stat.S_IRWXG)
    finally:
        os.close(handle)


@cache
def _may_become_others() -> bool:
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":" in line)
    capabilities = int(status["CapEff"], 16)
    ranges = [tuple(map(int, line.split())) for line in Path("/proc/self/uid_map").read_text().splitlines()]
    mapped = any(first <= FIRST_USER and first + count >= FIRST_USER + USERS for first, _, count in ranges)
    return mapped and all(capabilities >> number & 1 for number in NEEDED_CAPABILITIES)
