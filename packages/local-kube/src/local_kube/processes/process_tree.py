"""The processes of a container: find them, measure their memory, kill them all.

Standard library only. On Linux everything is read from `/proc`, elsewhere from `ps`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

PROC = Path("/proc")
ON_LINUX = sys.platform == "linux"
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER = 4, 36

MARK = "LOCAL_KUBE_CONTAINER_ID"
"""The variable that marks every process of a container, also those that left its session."""


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends, so that all can be found (Linux only)."""
    if ON_LINUX:
        import ctypes

        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def hide_from_others() -> None:
    """Keep other processes of the same user from reading the memory and the environment of this one (Linux only)."""
    if ON_LINUX:
        import ctypes

        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


def descendants(pid: int) -> list[int]:
    """Return all descendants of a process."""
    children = _children if (PROC / "self/task" / str(os.getpid()) / "children").exists() else _ProcessTable()
    found, unvisited = [], [pid]
    while unvisited:
        below = children(unvisited.pop())
        found += below
        unvisited += below
    return found


def resident_bytes(pids: list[int]) -> int:
    """Return the resident memory of processes; shared pages count for each of them."""
    if ON_LINUX:
        return sum(_pages(pid) for pid in pids) * PAGE_BYTES
    return sum(1024 * int(row[2]) for row in _ps("pid=,ppid=,rss=") if int(row[0]) in set(pids))


def proportional_bytes(pids: list[int]) -> int:
    """Return the resident memory of processes, with shared pages counted once; slower than `resident_bytes`."""
    if not ON_LINUX:
        return resident_bytes(pids)
    return sum(_proportional_bytes(pid) for pid in pids)


def birth(pid: int) -> str | None:
    """Return the start time of a process, different for a later one with the same pid; None if it ended."""
    if ON_LINUX:
        try:
            return _stat(pid)[19]
        except OSError:
            return None
    rows = _ps("lstart=", "-p", str(pid))
    return " ".join(rows[0]) if rows else None


def kill_descendants(pid: int, seconds: float = 5) -> None:
    """Kill all descendants of a process, and reap those that are children of this one."""
    until = time.monotonic() + seconds
    while (left := descendants(pid)) and time.monotonic() < until:
        kill(left)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.01)


def kill_leftovers(container_id: str, leader: int | None, leader_birth: str | None, seconds: float = 5) -> int:
    """Kill the processes that a container left when its shim was killed, and return their number.

    A pid may have been reused, so a process counts only if it carries the container's mark, or if it is in the
    session of a leader that is still the process that the shim started.
    """
    killed: set[int] = set()
    until = time.monotonic() + seconds
    while (left := _leftovers(container_id, leader, leader_birth)) and time.monotonic() < until:
        kill(left)
        killed.update(left)
        time.sleep(0.01)
    return len(killed)


def kill(pids: list[int]) -> None:
    """Send SIGKILL to processes."""
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def _leftovers(container_id: str, leader: int | None, leader_birth: str | None) -> list[int]:
    session = leader if leader and leader_birth and birth(leader) == leader_birth else None
    if not ON_LINUX:
        return [int(row[0]) for row in _ps("pid=,pgid=") if session and int(row[1]) == session]
    mark = f"{MARK}={container_id}".encode()
    found = []
    for pid in _pids():
        with suppress(OSError):
            state, in_session = _stat(pid)[0], int(_stat(pid)[3])
            marked = mark in (PROC / str(pid) / "environ").read_bytes().split(b"\0")
            if state not in "ZX" and (marked or in_session == session):
                found.append(pid)
    return found


def _children(pid: int) -> list[int]:
    found: list[int] = []
    with suppress(OSError):
        for thread in (PROC / str(pid) / "task").iterdir():
            with suppress(OSError):
                found += map(int, (thread / "children").read_text().split())
    return found


class _ProcessTable:
    """A snapshot of all processes, where the kernel does not list the children of each."""

    def __init__(self) -> None:
        self.children: dict[int, list[int]] = {}
        for pid, parent in _parents():
            self.children.setdefault(parent, []).append(pid)

    def __call__(self, pid: int) -> list[int]:
        return self.children.get(pid, [])


def _parents() -> list[tuple[int, int]]:
    if not ON_LINUX:
        return [(int(row[0]), int(row[1])) for row in _ps("pid=,ppid=")]
    found = []
    for pid in _pids():
        with suppress(OSError):
            found.append((pid, int(_stat(pid)[1])))
    return found


def _pids() -> list[int]:
    return [int(entry.name) for entry in PROC.iterdir() if entry.name.isdigit()]


def _stat(pid: int) -> list[str]:
    """Return the fields of `/proc/PID/stat` after the name, which can contain anything: state, parent, group, ..."""
    return (PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()


def _pages(pid: int) -> int:
    try:
        return int((PROC / str(pid) / "statm").read_text().split()[1])
    except OSError:
        return 0


def _proportional_bytes(pid: int) -> int:
    try:
        rollup = (PROC / str(pid) / "smaps_rollup").read_text()
    except OSError:
        return _pages(pid) * PAGE_BYTES
    return next((1024 * int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:")), 0)


def _ps(columns: str, *options: str) -> list[list[str]]:
    listed = subprocess.run(["ps", *(options or ["-ax"]), "-o", columns], capture_output=True, text=True, check=False)
    return [line.split() for line in listed.stdout.splitlines() if line.strip()]
