"""One attempt to run a container, as the server sees it: a folder, and a shim while it runs.

    container.json   what to run             (written by the server before the shim starts)
    alive            locked while the shim lives
    state.json       the container's state   (written by the shim)
    stop.json        an order to stop        (written by the server)
    signal.json      a signal to send        (written by the server, removed by the shim)
    log              the container's output  (written by the shim)

Everything is on disk, so that a new server sees what the one before it saw.
"""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import time
import uuid
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from local_kube.formats import now
from local_kube.json_files import read_json, write_json
from local_kube.processes import process_tree
from local_kube.processes.log_file import tail

if TYPE_CHECKING:
    from local_kube.json_files import Document

PACKAGES = Path(__file__).parents[2]
"""The folder that contains `local_kube`: all that the shim needs on its path."""
MAX_MESSAGE_BYTES = 4096
KILLED = 128 + signal.SIGKILL


class Container:
    """One attempt to run one container."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._shim: subprocess.Popen[bytes] | None = None
        self._final: Document | None = None

    @property
    def log(self) -> Path:
        """The log file, which may not exist yet."""
        return self.folder / "log"

    @property
    def created(self) -> bool:
        """Whether the attempt has been started."""
        return (self.folder / "container.json").exists()

    def start(
        self,
        argv: list[str],
        *,
        cwd: Path,
        env: dict[str, str],
        memory_limit: int | None,
        confinement: Document | None = None,
    ) -> None:
        """Record what to run and what it may reach, and start the shim that runs it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        container_id = uuid.uuid4().hex
        specification = {
            "id": container_id,
            "argv": argv,
            "cwd": str(cwd),
            "env": {**env, process_tree.MARK: container_id},
            "memory_limit_bytes": memory_limit,
            "confinement": confinement,
        }
        write_json(self.folder / "container.json", specification)
        self._start_shim()

    def state(self) -> Document:
        """Return the state, whose `phase` is `starting`, `running` or `terminated`. End it if its shim was killed."""
        if self._final is not None:
            return self._final
        state = self._current_state()
        if state["phase"] == "terminated":
            self._final = state
        return state

    def stop(self, grace_seconds: float, with_signal: int = signal.SIGTERM) -> None:
        """Order a signal now and SIGKILL after the grace period. A later order counts only if it is shorter."""
        if grace_seconds <= 0:
            with_signal = signal.SIGKILL
        kill_at = time.time() + grace_seconds
        earlier = read_json(self.folder / "stop.json")
        if earlier is None or kill_at < earlier["kill_at"] - 0.5:
            try:
                write_json(self.folder / "stop.json", {"signal": int(with_signal), "kill_at": kill_at})
            except OSError:  # a full disk: kill the process directly, which needs no disk
                self._kill_leader()

    def order(self, fault: str, what: Document) -> Path:
        """Order a fault, once for each name. The file of the order is gone when it is obeyed."""
        file, mark = self.folder / "order.json", self.folder / fault
        if not mark.exists():
            write_json(file, what)
            mark.touch()
        return file

    def _kill_leader(self) -> None:
        state = self.state()
        if state["phase"] == "running" and process_tree.birth(state["pid"]) == state["birth"]:
            process_tree.kill([state["pid"]])

    def _current_state(self) -> Document:
        if self._shim is not None:
            self._shim.poll()  # reaps it
        state = self._recorded_state()
        if state is not None and state["phase"] == "terminated":
            return state
        if self._shim_is_alive():
            return state or {"phase": "starting", "started_at": now()}
        state = self._recorded_state()  # the shim may have ended since the first read
        if state is None:  # the server was killed before the shim could start: nothing ran, so start it now
            self._start_shim()
            return {"phase": "starting", "started_at": now()}
        return state if state["phase"] == "terminated" else self._mark_lost(state)

    @cached_property
    def container_id(self) -> str:
        """The container's identity in Kubernetes objects."""
        specification = read_json(self.folder / "container.json") or {}
        return f"process://{specification.get('id', '')}"

    def termination_message(self, *, or_log: bool) -> str:
        """Return the content of the termination message file; with `or_log`, the end of a failed container's log."""
        with suppress(FileNotFoundError), (self.folder / "termination-log").open("rb") as file:
            if message := file.read(MAX_MESSAGE_BYTES):
                return message.decode(errors="replace")
        failed = self.state().get("exit_code") != 0
        return tail(self.log, MAX_MESSAGE_BYTES // 2) if or_log and failed else ""

    def _start_shim(self) -> None:
        """Start the shim with the lock on `alive`, which is taken here and inherited, so that it is held at once."""
        handle = os.open(self.folder / "alive", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with (self.folder / "shim.log").open("ab") as log:
                self._shim = subprocess.Popen(
                    [sys.executable, "-S", "-P", "-m", "local_kube.processes.shim", str(self.folder)],
                    cwd="/",
                    env={"PYTHONPATH": str(PACKAGES), "PATH": os.environ.get("PATH", os.defpath)},
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=log,
                    start_new_session=True,
                    pass_fds=(handle,),
                )
        finally:
            os.close(handle)

    def _recorded_state(self) -> Document | None:
        try:
            return read_json(self.folder / "state.json")
        except ValueError:  # read while it was being overwritten on a full disk
            return {"phase": "starting", "started_at": now()}

    def _shim_is_alive(self) -> bool:
        with suppress(FileNotFoundError):
            handle = os.open(self.folder / "alive", os.O_RDWR)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
            finally:
                os.close(handle)
        return False

    def _mark_lost(self, state: dict[str, Any]) -> Document:
        specification = read_json(self.folder / "container.json") or {}
        process_tree.kill_leftovers(specification.get("id", ""), state.get("pid"), state.get("birth"))
        lost = {
            **state,
            "phase": "terminated",
            "exit_code": KILLED,
            "reason": "ContainerStatusUnknown",
            "message": "The process that supervised this container was killed; the container was killed too",
            "finished_at": now(),
            "peak_memory_bytes": None,
        }
        write_json(self.folder / "state.json", lost)
        return lost
