"""The processes of the deployments, started through a `worker_host`."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import Queue
from typing import Any

import psutil

from servers.own_disk import namespace

PROJECT = Path(__file__).parents[2]
HOST = Path(__file__).with_name("worker_host.py")


@dataclass
class Started:
    """A process that was forked for an order."""

    pid: int
    _ended: Queue[int]
    exit_code: int | None = None

    def wait(self, seconds: float) -> int:
        """Return the exit code, negative for a signal. Raises `queue.Empty` if the process still runs."""
        if self.exit_code is None:
            self.exit_code = self._ended.get(timeout=seconds)
        return self.exit_code

    def has_ended(self) -> bool:
        return self.exit_code is not None or not self._ended.empty()

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def children(self) -> list[psutil.Process]:
        """The processes that it forked itself: the task of a supervisor."""
        with suppress(psutil.NoSuchProcess):
            return psutil.Process(self.pid).children(recursive=True)
        return []


@dataclass
class Host:
    """A running `worker_host`. Its file systems are its own, so that one can be small and full."""

    process: subprocess.Popen[bytes]
    orders: socket.socket
    _answers: dict[int, Queue[dict[str, int]]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def start(cls, folder: Path) -> Host:
        ours, theirs = socket.socketpair()
        own_mounts = namespace()
        environment = {
            **os.environ,
            "AIRFLOW_HOME": str(folder),
            "AIRFLOW__CORE__DAGS_FOLDER": str(PROJECT / "dags"),
            "AIRFLOW__CORE__PLUGINS_FOLDER": str(folder / "no-plugins"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(folder / "logs"),
            "PYTHONPATH": os.pathsep.join(str(PROJECT / name) for name in ("", "plugins", "tests")),
            "PYTHONWARNINGS": "",
        }
        with (folder / "host.log").open("wb") as log:
            process = subprocess.Popen(
                [*own_mounts, sys.executable, HOST, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                env=environment,
                stdout=log,
                stderr=log,
            )
        theirs.close()
        host = cls(process, ours)
        host.can_mount = bool(own_mounts)
        lines = ours.makefile("rb")
        assert lines.readline(), (folder / "host.log").read_text()
        threading.Thread(target=host._receive, args=[lines], daemon=True).start()
        return host

    can_mount: bool = False

    def fork(
        self,
        kind: str,
        log: Path,
        environment: dict[str, str],
        options: dict[str, Any],
        **arguments: Any,
    ) -> Started:
        """Start a process. The options are module constants that have other values in it, and what happens to it."""
        content = {"log": str(log), "environment": environment, "constants": {}, **options, "arguments": arguments}
        answers = self._order({"kind": kind, **content})
        pid = answers.get(timeout=60)["pid"]
        ended: Queue[int] = Queue()
        threading.Thread(target=lambda: ended.put(answers.get()["ended"]), daemon=True).start()
        return Started(pid, ended)

    def mount(self, folder: Path, kilobytes: int) -> None:
        """Mount a small file system, which only the processes of this host see."""
        command = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k,mode=777", "full", str(folder)]
        self._order({"kind": "mount", "command": command}).get(timeout=60)

    def seen(self, path: Path) -> Path:
        """Return the path under which this process finds a file of the host's file systems."""
        return Path(f"/proc/{self.process.pid}/root{path}") if self.can_mount else path

    def stop(self) -> None:
        self.orders.shutdown(socket.SHUT_RDWR)
        self.orders.close()
        self.process.wait(timeout=60)

    def _order(self, order: dict[str, Any]) -> Queue[dict[str, int]]:
        with self._lock:
            number = len(self._answers)
            self._answers[number] = answers = Queue()
            self.orders.sendall(json.dumps({"id": number, **order}).encode() + b"\n")
        return answers

    def _receive(self, lines: Any) -> None:
        for line in lines:
            content = json.loads(line)
            self._answers[content["id"]].put(content)
