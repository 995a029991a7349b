"""The process that looks after one container, and outlives the server that started it.

    python -S -m local_kube.shim FOLDER

It starts the container in a session of its own, writes what it says to `log`, takes orders from `stop.json`, kills
it when it outgrows its memory, and tells in `state.json` how it went. The server may be killed at any moment: the
next one finds all of it on disk. The shim inherits a lock on `alive` and holds it for as long as it lives.

Standard library only: it starts with every container, so it has to start fast.
"""

from __future__ import annotations

import os
import resource
import selectors
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from local_kube import processes
from local_kube.log_file import LogWriter
from local_kube.records import now, overwrite_record, precise_now, read_record, write_record

TICK = 0.1
"""Seconds between two looks at memory and orders."""
DRAIN_SECONDS = 2
"""How long a process that escaped may keep the output open after the container has ended."""
START_ERROR = 128
"""The exit code of a container that could not be started, as container runtimes report it."""


def main() -> None:
    """Look after the container whose folder is the first argument."""
    Shim(Path(sys.argv[1])).run()


@dataclass(slots=True)
class Shim:
    """One container from its start to its end."""

    folder: Path
    order: dict[str, Any] = field(init=False)
    state: dict[str, Any] = field(init=False)
    peak_bytes: int = 0
    out_of_memory: bool = False
    kill_at: float | None = None
    orders_seen: int = 0

    def __post_init__(self) -> None:
        self.order = read_record(self.folder / "container.json") or {}
        self.state = {"phase": "starting", "started_at": now()}

    def run(self) -> None:
        """Start the container, wait for it, and record how it ended."""
        for unheard in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            # A closing terminal is no order; `stop.json` is. A handler, because SIG_IGN would reach the container too.
            signal.signal(unheard, lambda *_: None)
        processes.adopt_orphans()
        self._record()
        output, inlet = os.pipe()
        try:
            container = subprocess.Popen(
                self.order["argv"],
                cwd=self.order["cwd"],
                env=self.order["env"],
                stdin=subprocess.DEVNULL,
                stdout=inlet,
                stderr=inlet,
                start_new_session=True,
            )
        except (OSError, ValueError, IndexError) as error:
            self._end(START_ERROR, "StartError", _why_not(self.order, error))
            return
        os.close(inlet)
        self.state |= {"phase": "running", "pid": container.pid, "birth": processes.birth(container.pid)}
        self._record()
        self._follow(container, output)

    def _follow(self, container: subprocess.Popen[bytes], output: int) -> None:
        os.set_blocking(output, False)
        log = LogWriter(self.folder / "log")
        reader = selectors.DefaultSelector()
        reader.register(output, selectors.EVENT_READ)
        next_look = 0.0
        while container.poll() is None:
            if reader.get_map():
                if reader.select(TICK) and not log.take(output):
                    reader.unregister(output)  # it closed its output, and lives on
            else:
                time.sleep(TICK)
            if time.monotonic() >= next_look:
                self._look(container)
                next_look = time.monotonic() + TICK
        code = container.returncode
        processes.end_descendants(os.getpid())
        self._drain(reader, log, output)
        log.close()
        self.peak_bytes = max(self.peak_bytes, _peak_of_children())
        if self.out_of_memory:
            self._end(128 + signal.SIGKILL, "OOMKilled", None)
        else:
            self._end(128 - code if code < 0 else code, "Completed" if code == 0 else "Error", None)

    def _drain(self, reader: selectors.BaseSelector, log: LogWriter, output: int) -> None:
        until = time.monotonic() + DRAIN_SECONDS
        while reader.get_map() and time.monotonic() < until:
            if reader.select(TICK) and not log.take(output):
                reader.unregister(output)

    def _look(self, container: subprocess.Popen[bytes]) -> None:
        if not self.folder.is_dir():  # somebody removed the cluster's root: nobody will ever ask for this container
            processes.end_descendants(os.getpid())
            sys.exit(1)
        self._weigh()
        self._obey(container)
        if self.kill_at is not None and time.time() >= self.kill_at:
            processes.kill(processes.descendants(os.getpid()))

    def _weigh(self) -> None:
        everyone = processes.descendants(os.getpid())
        held = processes.resident_bytes(everyone)
        self.peak_bytes = max(self.peak_bytes, held)
        limit = self.order.get("memory_limit_bytes")
        if limit and held > limit and processes.proportional_bytes(everyone) > limit:
            self.out_of_memory = True
            processes.kill(everyone)

    def _obey(self, container: subprocess.Popen[bytes]) -> None:
        """Carry out `stop.json`: a signal now, the end at a time. A later order replaces an earlier one."""
        try:
            written = (self.folder / "stop.json").stat().st_mtime_ns
        except FileNotFoundError:
            return
        if written == self.orders_seen:
            return
        order = read_record(self.folder / "stop.json")
        if order is None:
            return
        self.orders_seen, self.kill_at = written, order["kill_at"]
        with suppress(ProcessLookupError):
            os.kill(container.pid, order["signal"])

    def _end(self, code: int, reason: str, message: str | None) -> None:
        self.state |= {
            "phase": "terminated",
            "exit_code": code,
            "reason": reason,
            "message": message,
            "finished_at": now(),
            "ended": precise_now(),
            "peak_memory_bytes": self.peak_bytes or None,
        }
        self._record()

    def _record(self) -> None:
        """Write the state; on a full disk over the old one, which has its place. What is not on record is not over."""
        place = self.folder / "state.json"
        while self.folder.is_dir():
            with suppress(OSError):
                write_record(place, self.state)
                return
            with suppress(OSError):
                overwrite_record(place, self.state)
                return
            time.sleep(1)


def _why_not(order: dict[str, Any], error: Exception) -> str:
    if not order["argv"]:
        return "no command specified: an image would bring its own, and the local cluster has no images"
    program = order["argv"][0]
    if isinstance(error, FileNotFoundError) and not Path(order["cwd"]).is_dir():
        return f'the working folder "{order["cwd"]}" does not exist'
    if isinstance(error, FileNotFoundError):
        return f'exec: "{program}": executable file not found in $PATH'
    return f'exec: "{program}": {getattr(error, "strerror", None) or error}'


def _peak_of_children() -> int:
    """The most that a single process held. Below our own size it says nothing: a fork starts as a copy of us."""
    unit = 1024 if processes.ON_LINUX else 1
    children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return children * unit if children > resource.getrusage(resource.RUSAGE_SELF).ru_maxrss else 0


if __name__ == "__main__":
    main()
