"""The logs of the hosts of one workload: that of the first is told while it runs, all of them are kept as files."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, Self

from ml_metrics import storage
from ml_metrics.clusters.hosts import index_of
from ml_metrics.clusters.outcome import outcome_of
from ml_metrics.errors import StorageError
from ml_metrics.operators.outage import is_outage
from ml_metrics.run_folder import DOCUMENTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ml_metrics.run_folder import RunFolder

FOLLOWED = 64
"""How many hosts are listened to while they run; of the others, what is left at the end is kept."""
LARGEST = 64 * 1024 * 1024
"""The most that is kept of one log; what comes after that is not."""
RETRY_SECONDS = 2.0
LAST_LINES_SECONDS = 10.0
"""How long the last lines may take once the workload has ended."""


class HostLogs:
    """Listens to hosts. Threads read; only the caller's own thread tells."""

    def __init__(self, open_log: Callable[[str], Iterable[bytes]], tell: Callable[[str], None]) -> None:
        self._open_log, self._tell = open_log, tell
        self._lines: SimpleQueue[str] = SimpleQueue()
        self._threads: dict[int, Thread] = {}
        self._ended: set[int] = set()
        self._over = Event()
        self._folder = tempfile.TemporaryDirectory(prefix="host-logs-")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._folder.cleanup()

    def listen(self, pods: Iterable[dict[str, Any]]) -> None:
        """Listen to every host that has started, until it has ended."""
        for pod in pods:
            host, workload = index_of(pod), outcome_of(pod, [])
            if workload.ended_at is not None:
                self._ended.add(host)
            if workload.started_at is not None and host < FOLLOWED and host not in self._threads:
                thread = Thread(target=self._follow, args=(host, pod["metadata"]["name"]), daemon=True)
                self._threads[host] = thread
                thread.start()

    def tell_for(self, seconds: float) -> None:
        """Tell what the first host says, for so long."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            try:
                self._tell(self._lines.get(timeout=left))
            except Empty:
                return

    def keep(self, folder: RunFolder, attempt: int, pods: Iterable[dict[str, Any]]) -> list[str]:
        """Tell and keep what is left; returns where the logs lie."""
        self._ended.update(self._threads)
        deadline = time.monotonic() + LAST_LINES_SECONDS
        for thread in self._threads.values():
            thread.join(max(0.0, deadline - time.monotonic()))
        self._over.set()
        while not self._lines.empty():
            self._tell(self._lines.get())
        for pod in pods:
            if index_of(pod) not in self._threads:
                self._read(index_of(pod), pod["metadata"]["name"])
        kept = []
        for file in sorted(Path(self._folder.name).iterdir()):
            place = storage.join(folder.path, DOCUMENTS, "logs", f"attempt-{attempt}-{file.name}")
            try:
                storage.write_bytes(place, file.read_bytes())
                kept.append(place)
            except StorageError as error:  # the workload has ended, and that is what counts
                self._tell(f"a log could not be kept: {error}")
        return kept

    def _follow(self, host: int, pod: str) -> None:
        """Read a log to its end. A stream may end before its container does, as with the API server that sends it."""
        newest, last = "", False
        while not last and not self._over.is_set():
            last = host in self._ended
            answered, newest = self._read(host, pod, newest)
            last = last and answered
            if not last:
                self._over.wait(RETRY_SECONDS)

    def _read(self, host: int, pod: str, after: str = "") -> tuple[bool, str]:
        """Read what came after a time; whether there was an answer, and the time of the newest line."""
        newest = after
        try:
            with Path(self._folder.name, f"host-{host}.log").open("ab") as file:
                for raw in self._open_log(pod):
                    stamp, _, line = raw.decode(errors="backslashreplace").partition(" ")
                    if stamp <= after:
                        continue  # read before the stream broke
                    newest = stamp
                    if file.tell() < LARGEST:
                        file.write(line.encode())
                    if host == 0:
                        self._lines.put(line.rstrip("\n"))
        except Exception as error:  # noqa: BLE001  (a log that cannot be read is no reason to end the workload)
            if not is_outage(error):
                self._lines.put(f"the log of host {host} cannot be read any more: {error}")
            return not is_outage(error), newest
        return True, newest
