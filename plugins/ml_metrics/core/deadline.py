"""Work in limited time: a whole send, which no server can stretch, or any other function.

The timeout of a socket limits each operation: a server that sends one byte a second, a mail server with ten slow
replies or a silent name server would keep the sender for minutes. Each send has a thread of its own instead. When its
time is over, its connections are shut down, so that the thread ends as well, and the sender goes on.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import suppress
from threading import Event, Thread
from typing import Any, TypeVar

from ml_metrics.core.errors import MlMetricsError, UndeliveredError

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
        """In seconds. Raises `TimeoutError` if none are left."""
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
    result = _begun(lambda: work(deadline), f"a message for {service}")
    if not wait([result], seconds + SLACK_SECONDS).done:
        deadline.pass_now()
        raise UndeliveredError(f"{service} took too long", transient=True, unconfirmed=deadline.handed_over)
    return result.result()


class TookTooLongError(MlMetricsError):
    """The work did not end in time. It continues in its thread."""


def in_time(work: Callable[[], T], seconds: float, what: str) -> T:
    """Return what the work returns, or raise what it raises, or `TookTooLongError` when the time is over."""
    seconds = max(0.0, seconds)
    result = _begun(work, what)
    if not wait([result], seconds).done:
        raise TookTooLongError(f"{what}: no answer within {seconds:.0f} seconds")
    return result.result()


def _begun(work: Callable[[], T], name: str) -> Future[T]:
    """The thread does not keep the process alive."""
    result: Future[T] = Future()

    def perform() -> None:
        try:
            result.set_result(work())
        except BaseException as error:  # noqa: BLE001  (raised again where the result is waited for)
            result.set_exception(error)

    Thread(target=perform, name=name, daemon=True).start()
    return result
