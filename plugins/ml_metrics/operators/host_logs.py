"""The logs of the hosts of a workload: the first is followed in the task log, and of all there is an excerpt.

Logs are read line by line, and excerpts have a common limit, so that any number of hosts with logs of any length takes
a bounded amount of memory, and nothing of the worker's disk.
"""

from __future__ import annotations

import time
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, Self

from ml_metrics.clusters.hosts import index_of
from ml_metrics.clusters.outcome import outcome_of
from ml_metrics.errors import StorageError
from ml_metrics.logs.documents import write_log
from ml_metrics.logs.excerpt import Excerpt, stamp_and_line
from ml_metrics.model import JobStatus
from ml_metrics.operators.cluster import is_outage
from ml_metrics.operators.container_logs import join_in_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from ml_metrics.logs.excerpt import FirstError
    from ml_metrics.run_folder import RunFolder

MAX_FOLLOWED_HOSTS = 64
"""How many hosts are followed while they run. The logs of others are read after the end."""
MAX_LOG_BYTES = 16 * 1024 * 1024
"""How much of the log of a host is kept and saved: half of it from its beginning, half from its end."""
MAX_ALL_BYTES = 64 * 1024 * 1024
"""How much of the logs of all hosts together."""
MAX_LINE_BYTES = 256 * 1024
"""How much of a line is kept: a line may have no end."""
MAX_WAITING_LINES = 100_000
"""How many lines of the first host wait for the task log. A workload can write faster than Airflow logs."""
LEFT_OUT = "{} lines came faster than they can be logged: they are in the saved log only"
RETRY_SECONDS = 2.0
REMAINING_HOSTS_TIMEOUT_SECONDS = 60.0
"""How long to read the logs of hosts that were not followed."""
READERS = 16
"""How many of them are read at once."""
LAST_LINES_TIMEOUT_SECONDS = 10.0
"""How long to wait for the last lines after the workload has ended."""


def lines_of(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines of a log that comes in pieces, and of a line that is too long its beginning."""
    line = bytearray()
    for piece in pieces:
        *ends, rest = piece.split(b"\n")
        for end in ends:
            line += end[: MAX_LINE_BYTES - len(line)]
            yield bytes(line) + b"\n"
            line.clear()
        line += rest[: MAX_LINE_BYTES - len(line)]
    if line:
        yield bytes(line)


class HostLogs:
    """Follows the logs of hosts in threads. Only the thread of the caller writes to the task log."""

    def __init__(
        self,
        open_log: Callable[[str], Iterable[bytes]],
        log: Callable[[str], None],
        mask: Callable[[str], str] = str,
        hosts: int = 1,
    ) -> None:
        self._open_log, self._log, self._mask = open_log, log, mask
        self._lines: SimpleQueue[str] = SimpleQueue()
        self._left_out = 0
        self._threads: dict[int, Thread] = {}
        self._ended: set[int] = set()
        self._over = Event()
        self._most = min(MAX_LOG_BYTES, MAX_ALL_BYTES // hosts)
        self._excerpts: dict[int, Excerpt] = {}
        self._saved = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()

    @property
    def first_errors(self) -> Mapping[int, FirstError]:
        """The first error in the log of each host that has one."""
        errors = {host: excerpt.first_error for host, excerpt in sorted(self._excerpts.items())}
        return {host: error for host, error in errors.items() if error is not None}

    def follow(self, pods: Iterable[dict[str, Any]]) -> None:
        """Follow every host that has started, until it has ended."""
        for pod in pods:
            host, workload = index_of(pod), outcome_of(pod, [])
            if workload.ended_at is not None:
                self._ended.add(host)
            if workload.started_at is not None and host < MAX_FOLLOWED_HOSTS and host not in self._threads:
                thread = Thread(target=self._follow, args=(host, pod["metadata"]["name"]), daemon=True)
                self._threads[host] = thread
                thread.start()

    def log_for(self, seconds: float) -> None:
        """Write lines of the first host to the task log, for a number of seconds."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            try:
                self._log(self._lines.get(timeout=left))
            except Empty:
                return

    def save(self, folder: RunFolder, attempt: int, pods: Iterable[dict[str, Any]]) -> list[str]:
        """Read the logs to their ends, save them to the run folder, and return the names of their files."""
        if self._saved:
            return []
        self._saved = True
        self._ended.update(self._threads)
        join_in_time(self._threads.values(), LAST_LINES_TIMEOUT_SECONDS)
        self._over.set()
        # also all hosts of a workload that had ended when it was first seen
        others = [pod for pod in pods if index_of(pod) not in self._threads]
        self._read_in_time(sorted(others, key=lambda pod: outcome_of(pod, []).status is JobStatus.SUCCESS))
        while not self._lines.empty():
            self._log(self._lines.get())
        if self._left_out:
            self._log(LEFT_OUT.format(self._left_out))
        saved = []
        for host, excerpt in sorted(self._excerpts.items()):
            name = f"attempt-{attempt}-host-{host}.log"
            try:
                write_log(folder, name, excerpt.data())
                saved.append(name)
            except StorageError as error:  # a missing log does not fail the task
                self._log(f"a log could not be saved: {error}")
        return saved

    def _read_in_time(self, pods: Iterable[dict[str, Any]]) -> None:
        """Read the logs of ended hosts, several at once, as long as there is time."""
        waiting: SimpleQueue[dict[str, Any]] = SimpleQueue()
        for pod in pods:
            waiting.put(pod)

        def read() -> None:
            with suppress(Empty):
                while time.monotonic() < deadline:
                    pod = waiting.get_nowait()
                    self._read(index_of(pod), pod["metadata"]["name"])

        deadline = time.monotonic() + REMAINING_HOSTS_TIMEOUT_SECONDS
        readers = [Thread(target=read, daemon=True) for _ in range(min(waiting.qsize(), READERS))]
        for reader in readers:
            reader.start()
        join_in_time(readers, REMAINING_HOSTS_TIMEOUT_SECONDS)

    def _follow(self, host: int, pod: str) -> None:
        """Read a log to its end. A stream can end before its container, for example when the API server restarts."""
        newest, last = "", False
        while not last and not self._over.is_set():
            last = host in self._ended
            complete, newest = self._read(host, pod, newest)
            last = last and complete
            if not last:
                self._over.wait(RETRY_SECONDS)

    def _read(self, host: int, pod: str, after: str = "") -> tuple[bool, str]:
        """Read the log after a time. Return whether the cluster answered, and the time of the newest line."""
        newest, excerpt = after, self._excerpts.setdefault(host, Excerpt(self._most))
        try:
            for raw in self._open_log(pod):
                stamp, line = stamp_and_line(raw)
                if stamp <= after:
                    continue  # already read before the stream broke
                newest, line = stamp, self._mask(line)
                excerpt.add(stamp, line)
                if host == 0:
                    self._show(line.rstrip("\n"))
        except Exception as error:  # noqa: BLE001  (an unreadable log must not end the workload)
            if not is_outage(error):
                self._lines.put(f"the log of host {host} cannot be read: {error}")
            return not is_outage(error), newest
        return True, newest

    def _show(self, line: str) -> None:
        """Put a line on its way to the task log, unless too many wait already."""
        if self._lines.qsize() >= MAX_WAITING_LINES:
            self._left_out += 1
            return
        if self._left_out:
            self._lines.put(LEFT_OUT.format(self._left_out))
            self._left_out = 0
        self._lines.put(line)
