"""The local cluster as the rest of the package sees it: start it, stop it, ask how it is."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from local_kube.errors import ClusterError
from local_kube.kubeconfig import Address, answers, kubeconfig_path, read_address
from local_kube.options import node_words
from local_kube.scheduling import Node

if TYPE_CHECKING:
    from collections.abc import Iterator

START_SECONDS = 60
STOP_SECONDS = 60
IDLE_SECONDS = 15 * 60
"""A server that was started for somebody ends by itself after so long without a pod or a request."""
PACKAGES = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """How a local cluster is."""

    root: str
    kubeconfig: str
    running: bool = False
    url: str | None = None
    pid: int | None = None
    image_folder: str | None = None


class LocalCluster:
    """The local cluster that keeps its state below a folder.

    `image_folder` holds what every image's working folder is taken to hold; by default, the folder in which the
    server is started. It, `node` and `idle_seconds` are for a server that is started here; one that is already there
    keeps its own.
    """

    def __init__(
        self,
        root: str,
        image_folder: str | None = None,
        *,
        idle_seconds: float = IDLE_SECONDS,
        node: Node | None = None,
    ) -> None:
        self._root = Path(root).expanduser().absolute()
        self._image_folder = Path(image_folder or Path.cwd()).absolute()
        self._idle_seconds = idle_seconds
        self._node = node or Node()

    def ensure_running(self) -> str:
        """Start the server if none answers, and return the path of the kubeconfig. Safe to call from many processes."""
        if self._answering() is None:
            with self._one_at_a_time():
                if self._answering() is None:
                    self._start()
        return str(kubeconfig_path(self._root))

    def stop(self) -> bool:
        """End the server and its pods; False if there was none."""
        pid = self._serving()
        if pid is None:
            return False
        os.kill(pid, signal.SIGTERM)
        until = time.monotonic() + STOP_SECONDS
        while self._serving() == pid:
            if time.monotonic() > until:
                raise ClusterError(f"the local cluster (process {pid}) did not end in {STOP_SECONDS} s")
            time.sleep(0.05)
        return True

    def status(self) -> ClusterStatus:
        """Whether a server answers, and where."""
        address = self._answering()
        here = (str(self._root), str(kubeconfig_path(self._root)))
        if address is None:
            return ClusterStatus(*here)
        url = f"https://127.0.0.1:{address.port}"
        return ClusterStatus(*here, running=True, url=url, pid=address.pid, image_folder=str(address.image_folder))

    def _start(self) -> None:
        log_file = self._root / "server.log"
        command = [sys.executable, "-m", "local_kube.server", "--detach", *self._arguments()]
        try:
            with log_file.open("ab") as log:
                subprocess.run(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=self._environment(),
                    check=True,
                    timeout=START_SECONDS,
                )
        except (OSError, subprocess.SubprocessError) as error:
            tail = log_file.read_text(errors="replace")[-2000:].strip() if log_file.exists() else str(error)
            raise ClusterError(f"the local cluster did not start; the end of {log_file}:\n{tail}") from error

    def _arguments(self) -> list[str]:
        options = {"root": self._root, "image-folder": self._image_folder, "idle-seconds": self._idle_seconds}
        words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
        return [*words, *node_words(self._node)]

    @staticmethod
    def _environment() -> dict[str, str]:
        """Ours, with this package on the path, also where the caller found it by other means."""
        return {**os.environ, "PYTHONPATH": os.pathsep.join([str(PACKAGES), os.environ.get("PYTHONPATH", "")])}

    def _answering(self) -> Address | None:
        address = read_address(self._root)
        if address is None or self._serving() is None:
            return None
        return address if answers(self._root, address) else None

    def _serving(self) -> int | None:
        """The process that holds the root's lock: it wrote its number there."""
        try:
            handle = os.open(self._root / "server.lock", os.O_RDWR)
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return int(os.read(handle, 20) or 0) or None
        finally:
            os.close(handle)
        return None

    @contextmanager
    def _one_at_a_time(self) -> Iterator[None]:
        try:
            self._root.mkdir(parents=True, exist_ok=True, mode=0o700)
            handle = os.open(self._root / "start.lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise ClusterError(
                f"{self._root}: the local cluster cannot keep its state here: {error.strerror}"
            ) from error
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)
