"""One container as the server sees it: a folder, and perhaps a shim that lives.

    container.json   what to run             (written by the server, before the shim starts)
    alive            locked while the shim lives
    state.json       how it goes             (written by the shim)
    stop.json        an order to stop        (written by the server)
    log              what it said

All of it is on disk, so a server that starts anew sees what the one before it saw.
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
from typing import Any

from local_kube import processes
from local_kube.log_file import last_lines
from local_kube.records import Document, now, read_record, write_record

PACKAGES = Path(__file__).parents[1]
"""The folder that holds `ml_metrics`: all that a shim needs on its path."""
LONGEST_MESSAGE = 4096
KILLED = 128 + signal.SIGKILL


class Container:
    """One attempt to run one container."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._shim: subprocess.Popen[bytes] | None = None
        self._final: Document | None = None

    @property
    def log(self) -> Path:
        """The log file, which may not be there yet."""
        return self.folder / "log"

    @property
    def created(self) -> bool:
        """Whether a shim was ever asked to run it."""
        return (self.folder / "container.json").exists()

    def start(self, argv: list[str], *, cwd: Path, env: dict[str, str], memory_limit: int | None) -> None:
        """Hand it to a shim. The lock on `alive` is taken here and inherited, so that there is no moment without."""
        self.folder.mkdir(parents=True, exist_ok=True)
        container_id = uuid.uuid4().hex
        order = {
            "id": container_id,
            "argv": argv,
            "cwd": str(cwd),
            "env": {**env, processes.MARK: container_id},
            "memory_limit_bytes": memory_limit,
        }
        write_record(self.folder / "container.json", order)
        self._spawn()

    def look(self) -> Document:
        """Its state: `phase` is `starting`, `running` or `terminated`. One whose shim was killed is ended here."""
        if self._final is not None:
            return self._final
        state = self._look_again()
        if state["phase"] == "terminated":
            self._final = state
        return state

    def stop(self, grace_seconds: float, with_signal: int = signal.SIGTERM) -> None:
        """Order its end: a signal now, SIGKILL after the grace. A later order counts only for an earlier end."""
        if grace_seconds <= 0:
            with_signal = signal.SIGKILL
        kill_at = time.time() + grace_seconds
        standing = read_record(self.folder / "stop.json")
        if standing is None or kill_at < standing["kill_at"] - 0.5:
            try:
                write_record(self.folder / "stop.json", {"signal": int(with_signal), "kill_at": kill_at})
            except OSError:  # on a full disk, the one order that needs no disk
                self._kill_leader()

    def _kill_leader(self) -> None:
        state = self.look()
        if state["phase"] == "running" and processes.birth(state["pid"]) == state["birth"]:
            processes.kill([state["pid"]])

    def _look_again(self) -> Document:
        if self._shim is not None:
            self._shim.poll()  # collects it
        state = self._state()
        if state is not None and state["phase"] == "terminated":
            return state
        if self._shim_lives():
            return state or {"phase": "starting", "started_at": now()}
        state = self._state()  # it may have ended between the two looks
        if state is None:  # the server died before the shim could begin: nothing ran, so it may run now
            self._spawn()
            return {"phase": "starting", "started_at": now()}
        return state if state["phase"] == "terminated" else self._lost(state)

    @cached_property
    def container_id(self) -> str:
        """The identity that Kubernetes clients see."""
        order = read_record(self.folder / "container.json") or {}
        return f"process://{order.get('id', '')}"

    def last_words(self, or_log: bool) -> str:  # noqa: FBT001
        """What it wrote to its termination message file; with `or_log`, else the end of its log if it failed."""
        with suppress(FileNotFoundError):
            if said := (self.folder / "termination-log").read_bytes()[:LONGEST_MESSAGE]:
                return said.decode(errors="replace")
        failed = self.look().get("exit_code") != 0
        return last_lines(self.log, LONGEST_MESSAGE // 2) if or_log and failed else ""

    def _spawn(self) -> None:
        handle = os.open(self.folder / "alive", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with (self.folder / "shim.log").open("ab") as log:
                self._shim = subprocess.Popen(
                    [sys.executable, "-S", "-P", "-m", "local_kube.shim", str(self.folder)],
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

    def _state(self) -> Document | None:
        try:
            return read_record(self.folder / "state.json")
        except ValueError:  # seen in the moment in which it is overwritten on a full disk
            return {"phase": "starting", "started_at": now()}

    def _shim_lives(self) -> bool:
        with suppress(FileNotFoundError):
            handle = os.open(self.folder / "alive", os.O_RDWR)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
            finally:
                os.close(handle)
        return False

    def _lost(self, state: dict[str, Any]) -> Document:
        order = read_record(self.folder / "container.json") or {}
        processes.end_leftovers(order.get("id", ""), state.get("pid"), state.get("birth"))
        lost = {
            **state,
            "phase": "terminated",
            "exit_code": KILLED,
            "reason": "ContainerStatusUnknown",
            "message": "The process that looked after this container was killed; what it left behind was killed too",
            "finished_at": now(),
            "peak_memory_bytes": None,
        }
        write_record(self.folder / "state.json", lost)
        return lost
