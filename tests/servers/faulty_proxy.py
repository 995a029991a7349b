"""An HTTP proxy between the real BigQuery client and the server that breaks chosen requests."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from contextlib import nullcontext, suppress
from enum import StrEnum
from http.client import HTTPConnection, HTTPResponse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

CHANGE_LOCK = multiprocessing.get_context("fork").Lock()
"""Serializes changes: BigQuery checks and reserves a job id or a table name atomically, but the emulator does not.

A table is looked up under the lock as well: the emulator shows a table before it has its columns.

The proxies of several processes share the lock, because they are forked from the process that imported this module."""


class Fault(StrEnum):
    """A fault of one request."""

    REFUSE = "the connection is closed before the server receives the request"
    LOSE = "the server handles the request and its response is lost"
    BUSY = "503, and the request is not handled"
    LIE = "503, although the request was handled"
    QUOTA = "403 rateLimitExceeded, and the request is not handled"
    KILL_BEFORE = "the writer is killed before the server receives the request"
    KILL_DURING = "the writer is killed while the server handles the request"
    KILL_AFTER = "the writer is killed before it receives the response"


SURVIVABLE = (Fault.REFUSE, Fault.LOSE, Fault.BUSY, Fault.LIE, Fault.QUOTA)
KILLS = (Fault.KILL_BEFORE, Fault.KILL_DURING, Fault.KILL_AFTER)

BUSY = b'{"error": {"code": 503, "message": "busy", "errors": [{"reason": "backendError", "message": "busy"}]}}'
QUOTA = b'{"error": {"code": 403, "message": "slow", "errors": [{"reason": "rateLimitExceeded", "message": "slow"}]}}'


class FaultyProxy(ThreadingHTTPServer):
    """Forwards requests to a port on loopback. `faults` has the fault of a request by its number, from 0."""

    daemon_threads = True
    block_on_close = False
    serializes = True
    """Whether changes are forwarded one at a time."""

    def __init__(self, upstream: int, faults: Mapping[int, Fault]) -> None:
        super().__init__(("127.0.0.1", 0), _Forward)
        self.upstream = upstream
        self.faults = dict(faults)
        self.seen = 0
        self.happened: list[Fault] = []
        self.writer: int | None = None
        self._count = threading.Lock()
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def answer_to(self, method: str, path: str, body: bytes) -> tuple[int, bytes] | None:
        """Return the answer to a request that does not reach the server; None for one that does."""
        return None

    def answered(self, method: str, path: str) -> None:
        """Notice that the server has answered a request, or lost it."""

    def next_fault(self) -> Fault | None:
        with self._count:
            fault = self.faults.get(self.seen)
            self.seen += 1
            if fault:
                self.happened.append(fault)
            return fault

    def kill_writer(self) -> None:
        if self.writer:
            with suppress(ProcessLookupError):
                os.kill(self.writer, signal.SIGKILL)

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore the errors of connections that a killed client closed."""

    def close(self) -> None:
        self.shutdown()
        self.server_close()
        self._thread.join()


class _Forward(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # the body would wait 40 ms for the confirmation of the headers
    server: FaultyProxy

    def _any(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        fault = self.server.next_fault()
        match fault:
            case Fault.REFUSE:
                self.close_connection = True
                return
            case Fault.BUSY:
                self._answer(503, BUSY)
                return
            case Fault.QUOTA:
                self._answer(403, QUOTA)
                return
            case Fault.KILL_BEFORE:
                self.server.kill_writer()
                self.close_connection = True
                return
        if fault is Fault.KILL_DURING:
            threading.Timer(0.03, self.server.kill_writer).start()
        status, answer = self._forward(body)
        match fault:
            case Fault.LOSE:
                self.close_connection = True
            case Fault.LIE:
                self._answer(503, BUSY)
            case Fault.KILL_AFTER:
                self._answer(status, answer)
                self.server.kill_writer()
            case _:
                self._answer(status, answer)

    do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = _any

    def _forward(self, body: bytes) -> tuple[int, bytes]:
        headers = {
            name: value for name, value in self.headers.items() if name.lower() not in {"host", "accept-encoding"}
        }
        only_reads = self.command == "GET" and "/tables/" not in self.path
        if (answer := self.server.answer_to(self.command, self.path, body)) is not None:
            return answer
        with nullcontext() if only_reads or not self.server.serializes else CHANGE_LOCK:
            connection = HTTPConnection("127.0.0.1", self.server.upstream, timeout=60)
            try:
                connection.request(self.command, self.path, body, headers)
                found: HTTPResponse = connection.getresponse()
                return found.status, found.read()
            finally:
                connection.close()
                self.server.answered(self.command, self.path)

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing: a line for each request would hide the output of the tests."""
