"""A log that never makes the program wait: records go into a queue, and a background thread writes them.

What a training program can rely on: `put` takes about a microsecond, disk problems never raise, memory is bounded, and
`kill -9` loses only the records of the last half second. After a fork, the child process starts with an empty queue and
its own destination.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
import threading
import weakref
from collections import deque
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

logger = logging.getLogger(__name__)

QUEUE_LIMIT = 1_000_000
"""The maximum number of records kept while the destination is not writable. Further ones are dropped and counted."""
_BATCH_SIZE = 20_000
"""The maximum number of records rendered at once, so that a long queue does not double the memory."""


class Destination(Protocol):
    """Where records are written."""

    interval: float
    """Seconds between two writes."""
    remote: bool
    """Whether a cloud client does the writing."""

    def write(self, data: bytes) -> None:
        """Write whole records, or raise. After an error it is called again with the same records."""

    def after_fork(self) -> None:
        """Release, in a child process, what belongs to the parent."""

    def close(self) -> None:
        """Release everything."""


class RecordLog:
    """A queue, a destination and the thread between them."""

    def __init__(self, destination: Destination, render: Callable[[Any], bytes], *, limit: int = QUEUE_LIMIT) -> None:
        self._destination = destination
        self._render = render
        self._limit = limit
        self._queue: deque[Any] = deque()
        self._unwritten: list[bytes] = []
        self._reset()
        _logs.add(self)
        if destination.remote:
            _flush_before_thread_pools_close()

    def put(self, record: Any) -> None:
        """Queue a record. The background thread converts it to bytes with `render`."""
        if len(self._queue) < self._limit:
            self._queue.append(record)
        else:
            self._dropped += 1
        if not self._running:
            self._start()

    def flush(self, timeout: float = 10.0) -> bool:
        """Write everything queued so far. Returns False if that failed."""
        if not self._writing.acquire(timeout=timeout):
            return False
        try:
            return self._drain()
        finally:
            self._writing.release()

    def close(self) -> None:
        """Flush, stop the thread and close the destination. A later `put` starts again."""
        self._stop.set()
        self.flush()
        self._running = False
        self._destination.close()

    def _reset(self) -> None:
        self._writing = threading.Lock()
        self._starting = threading.Lock()
        self._stop = threading.Event()
        self._running = False
        self._dropped = 0
        self._warned: set[str] = set()

    def _start(self) -> None:
        with self._starting:
            if self._running:
                return
            self._stop = threading.Event()
            self._running = True
            thread = threading.Thread(
                target=self._write_periodically, args=(self._stop,), name="ml-metrics-log", daemon=True
            )
            try:
                thread.start()
            except RuntimeError:  # the interpreter is shutting down: the flush at exit writes what is queued
                self._running = False
            _flush_at_worker_exit(self)

    def _write_periodically(self, stop: threading.Event) -> None:
        while not stop.wait(self._destination.interval):
            if self._queue or self._unwritten:
                with self._writing:
                    self._drain()

    def _drain(self) -> bool:
        """Write the queue in batches. A batch that fails is kept and written first the next time."""
        try:
            while self._queue or self._unwritten:
                if not self._unwritten:
                    self._unwritten.append(self._next_batch())
                self._destination.write(self._unwritten[0])
                self._unwritten.clear()
        except Exception as error:  # noqa: BLE001  (never raise in a training program)
            self._warn_once("cannot be written now, and its records are kept in memory", error)
            return False
        if self._dropped:
            self._warn_once("could not be written for too long, and records were lost", self._dropped)
        return True

    def _next_batch(self) -> bytes:
        count = min(len(self._queue), _BATCH_SIZE)
        return b"".join([self._rendered(self._queue.popleft()) for _ in range(count)])

    def _rendered(self, record: Any) -> bytes:
        try:
            return self._render(record)
        except Exception as error:  # noqa: BLE001  (one invalid record must not lose the others)
            self._warn_once("lacks a record that cannot be written", error)
            return b""

    def _warn_once(self, problem: str, reason: object) -> None:
        """Log each problem once."""
        if problem not in self._warned:
            self._warned.add(problem)
            logger.warning("%s %s: %s", self._destination, problem, reason)

    def _after_fork(self) -> None:
        self._queue.clear()
        self._unwritten.clear()
        self._reset()
        self._destination.after_fork()


_logs: weakref.WeakSet[RecordLog] = weakref.WeakSet()


def _all_after_fork() -> None:
    for log in list(_logs):
        log._after_fork()  # noqa: SLF001


def _all_at_exit() -> None:
    for log in list(_logs):
        if not log.flush(timeout=5.0):
            _logs.discard(log)  # the destination does not answer, and the program must be able to end


@lru_cache(maxsize=1)
def _flush_before_thread_pools_close() -> None:
    """Flush before thread pools close, too.

    `atexit` callbacks run after that, and asyncio cannot resolve host names without a thread.
    """
    import concurrent.futures.thread  # noqa: F401  (callbacks run in reverse order: its exit callback must be registered first)

    register = getattr(threading, "_register_atexit", None)
    if register is not None:
        with suppress(RuntimeError):  # the interpreter is already shutting down
            register(_all_at_exit)


def _flush_at_worker_exit(log: RecordLog) -> None:
    """Flush when a forked worker of multiprocessing ends: it runs its own finalizers, but no `atexit` callbacks."""
    process, util = sys.modules.get("multiprocessing.process"), sys.modules.get("multiprocessing.util")
    if process is not None and util is not None and process.parent_process() is not None:
        util.Finalize(None, log.flush, kwargs={"timeout": 5.0}, exitpriority=0)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_all_after_fork)
# Cloud clients close their sessions in finalizers. This one registers the finalizers' own exit callback before ours,
# so they all run after our flush.
weakref.finalize(RecordLog, int).atexit = False
atexit.register(_all_at_exit)
