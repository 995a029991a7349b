"""The process that supervises one container and outlives the server that started it.

    python -S -m local_kube.processes.shim FOLDER

It starts the container in a session of its own, writes its output to `log`, obeys `stop.json`, enforces the memory
limit and records the container's state in `state.json`. The server may be killed at any moment: the next one finds
everything on disk. The shim inherits a lock on `alive` and holds it until it ends.

Standard library only: it starts with every container, so it must start fast.
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

from local_kube.formats import now, precise_now
from local_kube.json_files import overwrite_json, read_json, write_json
from local_kube.processes import process_tree
from local_kube.processes.given_up_rights import confine
from local_kube.processes.log_file import LogWriter

CHECK_SECONDS = 0.1
"""How often memory and orders are checked."""
DRAIN_SECONDS = 2
"""How long an escaped process may keep the output open after the container has ended."""
MAX_REASON_BYTES = 1000
UMASK = 0o022
"""That of a container, as container runtimes set it: the server's own is narrower."""
START_ERROR = 128
"""The exit code of a container that could not be started, as container runtimes report it."""


def main() -> None:
    """Supervise the container whose folder is the first argument."""
    Shim(Path(sys.argv[1])).run()


@dataclass(slots=True)
class Pause:
    """The processes stand still for a time, and again several times, at work for a while in between."""

    stopped: float
    at_work: float
    again: float
    until: float = 0.0
    """When the processes stop or go on next."""
    stands: bool = False


@dataclass(slots=True)
class Shim:
    """One container from its start to its end."""

    folder: Path
    specification: dict[str, Any] = field(init=False)
    state: dict[str, Any] = field(init=False)
    peak_bytes: int = 0
    out_of_memory: bool = False
    kill_at: float | None = None
    pauses: list[Pause] = field(default_factory=list)
    """Those that planned faults ordered, and that are not over."""
    order_time: int = 0
    """The modification time of the last order that was obeyed."""

    def __post_init__(self) -> None:
        self.specification = read_json(self.folder / "container.json") or {}
        self.state = {"phase": "starting", "started_at": now()}

    def run(self) -> None:
        """Start the container, wait for it, and record how it ended."""
        for ignored in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            # Only `stop.json` stops a container. SIG_IGN would be inherited by the container, a handler is not.
            signal.signal(ignored, lambda *_: None)
        process_tree.adopt_orphans()
        self._record()
        output, container_output = os.pipe()
        try:
            container = subprocess.Popen(
                self.specification["argv"],
                cwd="/" if self.specification.get("confinement") else self.specification["cwd"],
                env=self.specification["env"],
                stdin=subprocess.DEVNULL,
                stdout=container_output,
                stderr=container_output,
                start_new_session=True,
                umask=UMASK,
                preexec_fn=self._confine if self.specification.get("confinement") else None,  # noqa: PLW1509  (no threads)
            )
        except (OSError, ValueError, IndexError, subprocess.SubprocessError) as error:
            os.close(container_output)
            reason = os.read(output, MAX_REASON_BYTES).decode() if isinstance(error, subprocess.SubprocessError) else ""
            self._end(START_ERROR, "StartError", reason or _start_error(self.specification, error))
            return
        os.close(container_output)
        self.state |= {"phase": "running", "pid": container.pid, "birth": process_tree.birth(container.pid)}
        self._record()
        self._follow(container, output)

    def _confine(self) -> None:
        try:
            confine(self.specification["confinement"])
            os.chdir(self.specification["cwd"])
        except Exception as error:
            os.write(1, str(error).encode()[:MAX_REASON_BYTES])
            raise

    def _follow(self, container: subprocess.Popen[bytes], output: int) -> None:
        os.set_blocking(output, False)
        log = LogWriter(self.folder / "log")
        reader = selectors.DefaultSelector()
        reader.register(output, selectors.EVENT_READ)
        next_check = 0.0
        while container.poll() is None:
            if reader.get_map():
                if reader.select(self._seconds_to_wait()) and not log.copy_from(output):
                    reader.unregister(output)  # the container closed its output and keeps running
            else:
                time.sleep(self._seconds_to_wait())
            self._pause()
            if time.monotonic() >= next_check:
                self._check(container)
                next_check = time.monotonic() + CHECK_SECONDS
        code = container.returncode
        process_tree.kill_descendants(os.getpid())
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
            if reader.select(CHECK_SECONDS) and not log.copy_from(output):
                reader.unregister(output)

    def _check(self, container: subprocess.Popen[bytes]) -> None:
        if not self.folder.is_dir():  # the cluster's root was removed
            process_tree.kill_descendants(os.getpid())
            sys.exit(1)
        self._check_memory()
        self._obey_fault()
        self._obey(container)
        if self.kill_at is not None and time.time() >= self.kill_at:
            process_tree.kill(process_tree.descendants(os.getpid()))

    def _check_memory(self) -> None:
        pids = process_tree.descendants(os.getpid())
        used = process_tree.resident_bytes(pids)
        self.peak_bytes = max(self.peak_bytes, used)
        limit = self.specification.get("memory_limit_bytes")
        if limit and used > limit and process_tree.proportional_bytes(pids) > limit:
            self.out_of_memory = True
            process_tree.kill(pids)

    def _obey_fault(self) -> None:
        """Do to all processes of the container what `order.json` says."""
        file = self.folder / "order.json"
        if not file.exists() or (order := read_json(file)) is None:
            return
        if "pause" in order:
            self.pauses.append(Pause(*order["pause"]))
            self._pause()
        elif "memory" in order:
            self.out_of_memory = True
            self._send(signal.SIGKILL)
        else:
            self._send(order["signal"])
        file.unlink()

    def _send(self, number: int) -> None:
        for pid in process_tree.descendants(os.getpid()):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)

    def _pause(self) -> None:
        """Let the processes stand still, or go on, where it is time for that."""
        now = time.monotonic()
        for one in [pause for pause in self.pauses if pause.until <= now]:
            if one.stands and one.again <= 0:
                self.pauses.remove(one)
            elif one.stands:
                one.until, one.again = now + one.at_work, one.again - 1
            else:
                one.until = now + one.stopped
            one.stands = not one.stands
            self._send(signal.SIGSTOP if any(pause.stands for pause in self.pauses) else signal.SIGCONT)

    def _seconds_to_wait(self) -> float:
        return max(0.0, min([CHECK_SECONDS, *(one.until - time.monotonic() for one in self.pauses)]))

    def _obey(self, container: subprocess.Popen[bytes]) -> None:
        """Obey `stop.json`: a signal now, SIGKILL at a time. A later order replaces an earlier one."""
        try:
            modified = (self.folder / "stop.json").stat().st_mtime_ns
        except FileNotFoundError:
            return
        if modified == self.order_time:
            return
        order = read_json(self.folder / "stop.json")
        if order is None:
            return
        self.order_time, self.kill_at = modified, order["kill_at"]
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
        """Write the state, on a full disk over the old one, and retry until it is written."""
        file = self.folder / "state.json"
        while self.folder.is_dir():
            with suppress(OSError):
                write_json(file, self.state)
                return
            with suppress(OSError):
                overwrite_json(file, self.state)
                return
            time.sleep(1)


def _start_error(specification: dict[str, Any], error: Exception) -> str:
    if not specification["argv"]:
        return "no command specified: the local cluster has no images that could bring one"
    program = specification["argv"][0]
    if isinstance(error, FileNotFoundError) and not Path(specification["cwd"]).is_dir():
        return f'the working folder "{specification["cwd"]}" does not exist'
    if isinstance(error, FileNotFoundError):
        return f'exec: "{program}": executable file not found in $PATH'
    return f'exec: "{program}": {getattr(error, "strerror", None) or error}'


def _peak_of_children() -> int:
    """Return the maximum of a single process; 0 if it is below our own size, because a fork starts as a copy of us."""
    unit = 1024 if process_tree.ON_LINUX else 1  # kilobytes on Linux, bytes on macOS
    children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return children * unit if children > resource.getrusage(resource.RUSAGE_SELF).ru_maxrss else 0


if __name__ == "__main__":
    main()
