"""The processes of a container: who they are, what they hold in memory, and how to end them all.

Standard library only. Linux tells all of it in `/proc`; elsewhere `ps` does.
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
PAGE = os.sysconf("SC_PAGE_SIZE")
PR_SET_CHILD_SUBREAPER = 36

MARK = "ML_METRICS_CONTAINER_ID"
"""The variable that marks every process of a container, also one that left its session."""


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends, so that none is lost from sight (Linux)."""
    if ON_LINUX:
        import ctypes

        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def descendants(pid: int) -> list[int]:
    """The processes below this one, at any depth."""
    children = _children_by_proc if (PROC / "self/task" / str(os.getpid()) / "children").exists() else _Scan()
    found, waiting = [], [pid]
    while waiting:
        below = children(waiting.pop())
        found += below
        waiting += below
    return found


def resident_bytes(pids: list[int]) -> int:
    """The memory that these processes hold now; pages that they share are counted for each."""
    if ON_LINUX:
        return sum(_pages(pid) for pid in pids) * PAGE
    return sum(1024 * int(row[2]) for row in _ps("pid=,ppid=,rss=") if int(row[0]) in set(pids))


def proportional_bytes(pids: list[int]) -> int:
    """The memory that these processes hold now, shared pages counted once: slower to ask for."""
    if not ON_LINUX:
        return resident_bytes(pids)
    return sum(_proportional(pid) for pid in pids)


def birth(pid: int) -> str | None:
    """When a process started, in words that no later process with the same number repeats; None if it is gone."""
    if ON_LINUX:
        try:
            return _stat(pid)[19]
        except OSError:
            return None
    rows = _ps("lstart=", "-p", str(pid))
    return " ".join(rows[0]) if rows else None


def end_descendants(pid: int, seconds: float = 5) -> None:
    """Kill every process below this one and collect those that are ours to collect."""
    until = time.monotonic() + seconds
    while (left := descendants(pid)) and time.monotonic() < until:
        kill(left)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.01)


def end_leftovers(container_id: str, leader: int | None, leader_birth: str | None, seconds: float = 5) -> int:
    """Kill what a container left behind when its shim was killed, and say how many processes that were.

    A process number may belong to somebody else by now, so a process counts only if it carries the container's
    mark, or if it is in the session of a leader that is still the one we started.
    """
    ended: set[int] = set()
    until = time.monotonic() + seconds
    while (left := _leftovers(container_id, leader, leader_birth)) and time.monotonic() < until:
        kill(left)
        ended.update(left)
        time.sleep(0.01)
    return len(ended)


def kill(pids: list[int]) -> None:
    """End processes without asking."""
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def _leftovers(container_id: str, leader: int | None, leader_birth: str | None) -> list[int]:
    session = leader if leader and leader_birth and birth(leader) == leader_birth else None
    if not ON_LINUX:
        return [int(row[0]) for row in _ps("pid=,pgid=") if session and int(row[1]) == session]
    mark = f"{MARK}={container_id}".encode()
    found = []
    for pid in _numbers():
        with suppress(OSError):
            state, in_session = _stat(pid)[0], int(_stat(pid)[3])
            marked = mark in (PROC / str(pid) / "environ").read_bytes().split(b"\0")
            if state not in "ZX" and (marked or in_session == session):
                found.append(pid)
    return found


def _children_by_proc(pid: int) -> list[int]:
    found: list[int] = []
    with suppress(OSError):
        for thread in (PROC / str(pid) / "task").iterdir():
            with suppress(OSError):
                found += map(int, (thread / "children").read_text().split())
    return found


class _Scan:
    """The children of a process, from one look at all processes."""

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
    for pid in _numbers():
        with suppress(OSError):
            found.append((pid, int(_stat(pid)[1])))
    return found


def _numbers() -> list[int]:
    return [int(entry.name) for entry in PROC.iterdir() if entry.name.isdigit()]


def _stat(pid: int) -> list[str]:
    """The fields of `/proc/PID/stat` after the name, which may hold anything: state, parent, group, session, ..."""
    return (PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()


def _pages(pid: int) -> int:
    try:
        return int((PROC / str(pid) / "statm").read_text().split()[1])
    except OSError:
        return 0


def _proportional(pid: int) -> int:
    try:
        rollup = (PROC / str(pid) / "smaps_rollup").read_text()
    except OSError:
        return _pages(pid) * PAGE
    return next((1024 * int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:")), 0)


def _ps(columns: str, *options: str) -> list[list[str]]:
    listed = subprocess.run(["ps", *(options or ["-ax"]), "-o", columns], capture_output=True, text=True, check=False)
    return [line.split() for line in listed.stdout.splitlines() if line.strip()]
