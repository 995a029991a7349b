"""Start and stop a cluster, and report its status, from Python."""

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
from local_kube.kubeconfig import Address, kubeconfig_path, read_address, responds
from local_kube.node import Node
from local_kube.options import MOUNT_VARIABLE_PREFIX, confinement_arguments, node_arguments
from local_kube.pods.confinement import Confinement
from local_kube.pods.environment import INHERITED

if TYPE_CHECKING:
    from collections.abc import Iterator

START_TIMEOUT_SECONDS = 60
STOP_TIMEOUT_SECONDS = 60
IDLE_SECONDS = 15 * 60
"""A server in the background stops by itself after so long without an active pod or a request."""
MAX_LOG_TAIL = 2000
PACKAGES = Path(__file__).parents[1]
KEPT_VARIABLES = {*INHERITED, "PATH", "LOGNAME", "PYTHONDONTWRITEBYTECODE", "PYTHONWARNINGS"}
"""The variables that the server is started with. All others, which may hold passwords, stay here."""


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """Whether a cluster is running, and where."""

    root: str
    kubeconfig: str
    running: bool = False
    url: str | None = None
    pid: int | None = None
    image_folder: str | None = None
    confined: bool | None = None
    """Whether containers are kept to what they may reach; else they have the rights of the server."""


class LocalCluster:
    """The cluster that keeps its state below the folder `root`.

    `image_folder` holds the files that every container finds in its working folder; by default, it is the current
    folder. Containers find the real path of each volume in a variable that begins with `mount_variable_prefix`. All
    options apply to a server that is started here; a server that is already running keeps its own.
    """

    def __init__(
        self,
        root: str,
        image_folder: str | None = None,
        *,
        idle_seconds: float = IDLE_SECONDS,
        node: Node | None = None,
        mount_variable_prefix: str = MOUNT_VARIABLE_PREFIX,
        confinement: Confinement | None = None,
    ) -> None:
        self._root = Path(root).expanduser().absolute()
        self._image_folder = Path(image_folder or Path.cwd()).absolute()
        self._idle_seconds = idle_seconds
        self._node = node or Node()
        self._mount_variable_prefix = mount_variable_prefix
        self._confinement = confinement or Confinement()

    def ensure_running(self) -> str:
        """Start the server if none responds, and return the path of the kubeconfig. Many processes can call it."""
        if self._address() is None:
            with self._start_lock():
                if self._address() is None:
                    self._start()
        return str(kubeconfig_path(self._root))

    def stop(self) -> bool:
        """Stop the server and its pods; return False if it was not running."""
        pid = self._server_pid()
        if pid is None:
            return False
        os.kill(pid, signal.SIGTERM)
        until = time.monotonic() + STOP_TIMEOUT_SECONDS
        while self._server_pid() == pid:
            if time.monotonic() > until:
                raise ClusterError(f"the local cluster (process {pid}) did not stop in {STOP_TIMEOUT_SECONDS} s")
            time.sleep(0.05)
        return True

    def status(self) -> ClusterStatus:
        """Return whether a server responds, and its address."""
        address = self._address()
        paths = (str(self._root), str(kubeconfig_path(self._root)))
        if address is None:
            return ClusterStatus(*paths)
        url = f"https://127.0.0.1:{address.port}"
        image_folder, confined = str(address.image_folder), address.confined
        return ClusterStatus(
            *paths, running=True, url=url, pid=address.pid, image_folder=image_folder, confined=confined
        )

    def _start(self) -> None:
        log_file = self._root / "server.log"
        try:
            with log_file.open("ab") as log:
                subprocess.run(
                    [sys.executable, "-P", "-m", "local_kube.server", "--detach", *self._arguments()],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=self._environment(),
                    check=True,
                    timeout=START_TIMEOUT_SECONDS,
                )
        except (OSError, subprocess.SubprocessError) as error:
            tail = log_file.read_text(errors="replace")[-MAX_LOG_TAIL:].strip() if log_file.exists() else str(error)
            raise ClusterError(f"the local cluster did not start; the end of {log_file}:\n{tail}") from error

    def _arguments(self) -> list[str]:
        options = {
            "root": self._root,
            "image-folder": self._image_folder,
            "idle-seconds": self._idle_seconds,
            "mount-variable-prefix": self._mount_variable_prefix,
        }
        named = [f"--{name}={value}" for name, value in options.items()]
        return [*named, *node_arguments(self._node), *confinement_arguments(self._confinement)]

    @staticmethod
    def _environment() -> dict[str, str]:
        """Return the server's environment: without our secrets, and with this package on the path, however we found it.

        A process can read the environment of others of its user, and the server goes on when we have ended.
        """
        kept = {name: value for name, value in os.environ.items() if name in KEPT_VARIABLES or name.startswith("LC_")}
        return {**kept, "PYTHONPATH": os.pathsep.join([str(PACKAGES), os.environ.get("PYTHONPATH", "")])}

    def _address(self) -> Address | None:
        """Return the address of a server that responds."""
        address = read_address(self._root)
        if address is None or self._server_pid() is None:
            return None
        return address if responds(self._root, address) else None

    def _server_pid(self) -> int | None:
        """Return the pid of the process that holds the root's lock, which the process wrote there."""
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
    def _start_lock(self) -> Iterator[None]:
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
