"""A network that fails: an HTTP proxy between BigQuery's real client and the server, which breaks chosen requests."""

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

ONE_CHANGE_AT_A_TIME = multiprocessing.get_context("fork").Lock()
"""The service takes a job's id or a table's name in one step; the stand-in looks for it, and then writes it.

Proxies of several processes share it: they are forked from the one that imported this."""


class Fault(StrEnum):
    """What happens to one request."""

    REFUSE = "the connection is closed before the server hears of it"
    LOSE = "the server does it, and its answer is lost"
    BUSY = "503 without doing it"
    LIE = "503, but it was done"
    QUOTA = "403 rateLimitExceeded without doing it"
    KILL_BEFORE = "the writer is killed before the server hears of it"
    KILL_DURING = "the writer is killed while the server does it"
    KILL_AFTER = "the writer is killed when the answer is on its way"


SPARES_THE_WRITER = (Fault.REFUSE, Fault.LOSE, Fault.BUSY, Fault.LIE, Fault.QUOTA)
KILLS = (Fault.KILL_BEFORE, Fault.KILL_DURING, Fault.KILL_AFTER)

BUSY = b'{"error": {"code": 503, "message": "busy", "errors": [{"reason": "backendError", "message": "busy"}]}}'
QUOTA = b'{"error": {"code": 403, "message": "slow", "errors": [{"reason": "rateLimitExceeded", "message": "slow"}]}}'


class FaultyProxy(ThreadingHTTPServer):
    """Forwards to a port of loopback. `faults` says what happens to the request of each number, from 0."""

    daemon_threads = True
    block_on_close = False

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
        """A client that was killed hangs up: that is the point."""

    def close(self) -> None:
        self.shutdown()
        self.server_close()
        self._thread.join()


class _Forward(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
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

    do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = _any  # noqa: N815  (the names that http.server calls)

    def _forward(self, body: bytes) -> tuple[int, bytes]:
        headers = {
            name: value for name, value in self.headers.items() if name.lower() not in {"host", "accept-encoding"}
        }
        with nullcontext() if self.command == "GET" else ONE_CHANGE_AT_A_TIME:
            connection = HTTPConnection("127.0.0.1", self.server.upstream, timeout=60)
            try:
                connection.request(self.command, self.path, body, headers)
                answer: HTTPResponse = connection.getresponse()
                return answer.status, answer.read()
            finally:
                connection.close()

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """The tests say what went wrong; a line for each request would hide it."""
