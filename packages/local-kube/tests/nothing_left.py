"""What tests start ends with them, however they end: well, by SIGTERM, by `kill -9`, or in the middle of a fixture.

The process that was started as pytest only waits, and one that it forks goes on as pytest. Between the two is this
program: on Linux it becomes the parent of all that the tests leave behind, also of servers that detach themselves and
of processes with an environment of their own. When either of the two has ended, it kills everything below it. It is in
a session of its own, so that it outlives a signal to the whole group of pytest.

With FILES_IN_MEMORY=1, root's tests write into memory, which ends with the last of their processes.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import NoReturn

from local_kube.processes import process_tree
from local_kube.processes.given_up_rights import mount_memory

SECONDS = 30.0
"""How long killing may take: each process that dies can leave others behind."""
MEMORY = 12 * 2**30
"""A machine with less has none to spare for files."""
_watched = False


def leave_nothing_running() -> None:
    """Return in a process of which nothing is left when it has ended. Call it before there is a thread."""
    global _watched  # noqa: PLW0603  (two conftest.py of one pytest call this)
    if _watched or "PYTEST_XDIST_WORKER" in os.environ:  # the workers are below the process that was started
        return
    _watched = True
    _write_into_memory()
    reading, writing = os.pipe()
    watcher = os.fork()
    if watcher:
        os.close(reading)
        _wait_for(watcher)
    os.close(writing)  # so that the pipe ends with the process that was started
    process_tree.adopt_orphans()
    tests = os.fork()
    if tests:
        os.setsid()
        os.set_inheritable(reading, True)
        environment = {**os.environ, "PYTHONPATH": str(Path(process_tree.__file__).parents[2])}
        program = [sys.executable, "-S", "-P", __file__, str(tests), str(reading)]
        os.execve(program[0], program, environment)
    os.close(reading)


def _write_into_memory() -> None:
    """Let temporary files be in memory that only this process and its children see, if that is wished and can be had.

    The folder stays, empty, and is the same for each run.
    """
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if not os.environ.pop("FILES_IN_MEMORY", "") or os.geteuid() or total < MEMORY:
        return
    folder = Path(tempfile.gettempdir(), "tests-in-memory")
    folder.mkdir(exist_ok=True)
    with suppress(OSError):  # a container whose root may not mount
        mount_memory(str(folder), 0)
        os.environ["TMPDIR"] = tempfile.tempdir = str(folder)


def _wait_for(watcher: int) -> NoReturn:
    """End as the tests end. If the watcher is killed, do its work."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the tests, too, which then report what they did
    process_tree.adopt_orphans()
    _end_with(os.waitpid(watcher, 0)[1])


def _watch(tests: int, started: int) -> NoReturn:
    """Wait until the tests have ended, or the process that was started; adopted processes end in the meantime."""

    def end_with_what_was_started() -> None:
        os.read(started, 1)
        os.kill(tests, signal.SIGKILL)

    Thread(target=end_with_what_was_started, daemon=True).start()
    pid = status = 0
    while pid != tests:
        pid, status = os.wait()
    _end_with(status)


def _end_with(status: int) -> NoReturn:
    process_tree.kill_descendants(os.getpid(), SECONDS)
    code = os.waitstatus_to_exitcode(status)
    os._exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    _watch(*map(int, sys.argv[1:]))
