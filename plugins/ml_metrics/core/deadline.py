"""The time for a whole send, which no server can stretch.

The timeout of a socket limits each operation: a server that sends one byte a second, a mail server with ten slow
replies or a silent name server would keep the sender for minutes. Each send has a thread of its own instead. When its
time is over, its connections are shut down, so that the thread ends as well, and the sender goes on.
"""

from __future__ import annotations

import socket
import time
from concurrent.futures import Future, wait
from contextlib import suppress
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ml_metrics.core.errors import MlMetricsError, UndeliveredError

if TYPE_CHECKING:
    from collections.abc import Callable


T = TypeVar("T")

SLACK_SECONDS = 0.5
"""The time for a thread to report its own timeout, which names what was slow."""


class Deadline:
    """The end of a send.

    Args:
        seconds: the time from now.
    """

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds
        self._passed = Event()
        self._connections: list[Any] = []
        self.handed_over = False
        """Whether the service has the whole message, and may have accepted it."""

    @property
    def remaining(self) -> float:
        """The seconds that are left. Raises `TimeoutError` if there are none."""
        left = self._end - time.monotonic()
        if self._passed.is_set() or left <= 0:
            raise TimeoutError
        return left

    def watch(self, connection: Any) -> None:
        """Shut this socket, or the `sock` that this connection has then, down when the time is over."""
        self._connections.append(connection)
        if self._passed.is_set():
            _shut(connection)

    def pass_now(self) -> None:
        """Shut every connection down. What begins later finds that the time is over."""
        self._passed.set()
        for connection in list(self._connections):
            _shut(connection)


def _shut(connection: Any) -> None:
    its_socket = connection if isinstance(connection, socket.socket) else connection.sock
    if its_socket is not None:
        with suppress(OSError):
            # a TLS socket's own method would go on in plain text
            socket.socket.shutdown(its_socket, socket.SHUT_RDWR)


def within(seconds: float, service: str, work: Callable[[Deadline], T]) -> T:
    """Return the result of `work`, or raise its error, or `UndeliveredError` when the time is over."""
    deadline = Deadline(seconds)
    result: Future[T] = Future()
    Thread(target=_perform, args=(work, deadline, result), name=f"a message for {service}", daemon=True).start()
    if not wait([result], seconds + SLACK_SECONDS).done:
        deadline.pass_now()
        raise UndeliveredError(f"{service} took too long", transient=True, unconfirmed=deadline.handed_over)
    return result.result()


def _perform(work: Callable[[Deadline], T], deadline: Deadline, result: Future[T]) -> None:
    try:
        result.set_result(work(deadline))
    except BaseException as error:  # noqa: BLE001  (raised again by the sender)
        result.set_exception(error)


Result = TypeVar("Result")


class TookTooLongError(MlMetricsError):
    """The work did not end in time. It continues in its thread."""


def in_time(work: Callable[[], Result], seconds: float, what: str) -> Result:
    """Return what the work returns, or raise what it raises, or `TookTooLongError` when the time is over.

    The thread of the work does not keep the process alive.
    """
    running = _Work(work)
    thread = Thread(target=running.run, daemon=True)
    thread.start()
    thread.join(max(0.0, seconds))
    if thread.is_alive():
        raise TookTooLongError(f"{what}: no answer within {max(0.0, seconds):.0f} seconds")
    if running.error is not None:
        raise running.error
    return running.results[0]


class _Work(Generic[Result]):
    def __init__(self, work: Callable[[], Result]) -> None:
        self.results: list[Result] = []
        self.error: BaseException | None = None
        self._work = work

    def run(self) -> None:
        try:
            self.results.append(self._work())
        except BaseException as error:  # noqa: BLE001  (it is raised again in the thread that waits)
            self.error = error
