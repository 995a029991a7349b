"""A log that a program writes without waiting: records go into a queue, and one thread carries them away.

What it promises a training program: `put` costs about a microsecond, nothing that goes wrong with the disk is ever
raised, memory stays bounded, and `kill -9` loses what was put in the last half second. After a fork, the child
starts with an empty queue and a place of its own.
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
"""Records kept while the place cannot be written to. Later ones are dropped, and counted."""
_BATCH = 20_000
"""Records rendered at once, so that a long queue does not double the memory."""


class Place(Protocol):
    """Where records go."""

    interval: float
    """Seconds between two writes."""
    remote: bool
    """Whether a client of a cloud carries them there."""

    def write(self, data: bytes) -> None:
        """Take whole records, or raise and take the same again later."""

    def after_fork(self) -> None:
        """Let go, in a child process, of what belongs to the parent."""

    def close(self) -> None:
        """Let go of everything."""


class RecordLog:
    """A queue in front of a place, and the thread between them."""

    def __init__(
        self,
        place: Place,
        render: Callable[[Any], bytes],
        *,
        limit: int = QUEUE_LIMIT,
    ) -> None:
        self._place = place
        self._render = render
        self._limit = limit
        self._queue: deque[Any] = deque()
        self._unwritten: list[bytes] = []
        self._reset()
        _logs.add(self)
        if place.remote:
            _flush_while_threads_may_start()

    def put(self, record: Any) -> None:
        """Queue a record; `render` makes bytes of it later, in the other thread."""
        if len(self._queue) < self._limit:
            self._queue.append(record)
        else:
            self._dropped += 1
        if not self._running:
            self._start()

    def flush(self, timeout: float = 10.0) -> bool:
        """Write everything that was put so far; False if that could not be done."""
        if not self._writing.acquire(timeout=timeout):
            return False
        try:
            return self._drain()
        finally:
            self._writing.release()

    def close(self) -> None:
        """Flush, stop the thread and let go of the place. A later `put` starts anew."""
        self._stop.set()
        self.flush()
        self._running = False
        self._place.close()

    def _reset(self) -> None:
        self._writing = threading.Lock()
        self._starting = threading.Lock()
        self._stop = threading.Event()
        self._running = False
        self._dropped = 0
        self._told: set[str] = set()

    def _start(self) -> None:
        with self._starting:
            if self._running:
                return
            self._stop = threading.Event()
            self._running = True
            thread = threading.Thread(target=self._carry, args=(self._stop,), name="ml-metrics-log", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # the interpreter is shutting down: the flush at exit writes what is queued
                self._running = False
            _flush_at_the_end_of_a_worker(self)

    def _carry(self, stop: threading.Event) -> None:
        while not stop.wait(self._place.interval):
            if self._queue or self._unwritten:
                with self._writing:
                    self._drain()

    def _drain(self) -> bool:
        """Write the queue, batch by batch. What the place refuses is kept and comes first the next time."""
        try:
            while self._queue or self._unwritten:
                if not self._unwritten:
                    self._unwritten.append(self._next_batch())
                self._place.write(self._unwritten[0])
                self._unwritten.clear()
        except Exception as error:  # noqa: BLE001  (this thread serves a training program: whatever it is, it is told once)
            self._tell("cannot be written now, and its records are kept in memory", error)
            return False
        if self._dropped:
            self._tell("could not be written for too long, and records were lost", self._dropped)
        return True

    def _next_batch(self) -> bytes:
        count = min(len(self._queue), _BATCH)
        return b"".join([self._rendered(self._queue.popleft()) for _ in range(count)])

    def _rendered(self, record: Any) -> bytes:
        try:
            return self._render(record)
        except Exception as error:  # noqa: BLE001  (one odd record must not lose the others)
            self._tell("lacks a record that cannot be written", error)
            return b""

    def _tell(self, what: str, why: object) -> None:
        """Say each thing once."""
        if what not in self._told:
            self._told.add(what)
            logger.warning("%s %s: %s", self._place, what, why)

    def _after_fork(self) -> None:
        self._queue.clear()
        self._unwritten.clear()
        self._reset()
        self._place.after_fork()


_logs: weakref.WeakSet[RecordLog] = weakref.WeakSet()


def _all_after_fork() -> None:
    for log in list(_logs):
        log._after_fork()  # noqa: SLF001


def _all_at_exit() -> None:
    for log in list(_logs):
        if not log.flush(timeout=5.0):
            _logs.discard(log)  # its place does not answer, and the program is to end


@lru_cache(maxsize=1)
def _flush_while_threads_may_start() -> None:
    """Flush at the very begin of the interpreter's end, too.

    What `atexit` calls comes after all thread pools have closed, and without one asyncio finds no host's address.
    """
    import concurrent.futures.thread  # noqa: F401  (its end is registered before ours, and so comes after it)

    register = getattr(threading, "_register_atexit", None)
    if register is not None:
        with suppress(RuntimeError):  # the end has begun
            register(_all_at_exit)


def _flush_at_the_end_of_a_worker(log: RecordLog) -> None:
    """A forked worker of multiprocessing ends without what `atexit` knows, but with finalizers of its own."""
    process, util = sys.modules.get("multiprocessing.process"), sys.modules.get("multiprocessing.util")
    if process is not None and util is not None and process.parent_process() is not None:
        util.Finalize(None, log.flush, kwargs={"timeout": 5.0}, exitpriority=0)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_all_after_fork)
# Clients of clouds close their sessions in finalizers; as a first one is there now, all of them run after our flush.
weakref.finalize(RecordLog, int).atexit = False
atexit.register(_all_at_exit)
