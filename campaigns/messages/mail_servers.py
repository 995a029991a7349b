"""An SMTP server and SendGrid's stand-in on loopback that hang, refuse or lose their answers while a fault lasts."""

from __future__ import annotations

import json
import re
import socket
import socketserver
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from email import message_from_bytes
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PAUSE_SECONDS = 0.4
LATE_SECONDS = 12.0
"""A slow server answers after this time: later than any client waits that has ten seconds."""


class Mode(StrEnum):
    """What a server does with each message."""

    WELL = "takes it"
    SILENT = "accepts the connection, and stays silent"
    SILENT_AT_THE_END = "reads the message, and stays silent; it does not take it"
    UNAVAILABLE = "temporarily refuses (421, 451, 503)"
    TOO_MANY = "temporarily refuses (452, 429)"
    SLOW = "takes it, and answers after the client has given up"
    DELAYED = "takes it, with a pause before each answer"
    LOSES_ANSWER = "takes it, and closes the connection instead of an answer"


@dataclass
class Taken:
    """A message that a server took."""

    key: str
    at: float
    answer_lost: bool
    """Whether the client has not had the answer: it was not sent, or the client had given up or was killed."""
    durable: bool
    """Whether the message existed outside the sending process at that moment."""


@dataclass
class Ledger:
    """What the servers of one deployment took."""

    is_durable: Callable[[str], bool] = lambda _: True
    taken: list[Taken] = field(default_factory=list)
    connections: int = 0

    def take(self, key: str) -> Taken:
        # the time first: to look into a warehouse may take a while
        at = time.time()
        one = Taken(key, at, answer_lost=False, durable=self.is_durable(key))
        self.taken.append(one)
        return one


def smtp_connection(port: int) -> dict[str, Any]:
    """Return Airflow's connection to a mail server on this machine, without TLS."""
    plain = {"disable_ssl": True, "disable_tls": True, "from_email": "ml-metrics@example.com"}
    return {"conn_type": "smtp", "host": "127.0.0.1", "port": port, "extra": plain}


class MailServer:
    """An SMTP server; `mode` may change at any time."""

    def __init__(self, ledger: Ledger) -> None:
        self.mode = Mode.WELL
        self.ledger = ledger
        self.stopped = threading.Event()
        self._server = _ThreadingServer(("127.0.0.1", 0), _handler_of(self))
        self.port: int = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True).start()

    def stop(self) -> None:
        self.stopped.set()
        self._server.shutdown()
        self._server.server_close()

    def converse(self, connection: socket.socket) -> None:
        """One connection, by RFC 5321 as far as smtplib uses it."""
        mode = self.mode
        self.ledger.connections += 1
        if mode is Mode.SILENT:
            self._stay_silent(connection)
        elif mode is Mode.UNAVAILABLE:
            connection.sendall(b"421 4.3.2 the service is not available, try again later\r\n")
        else:
            connection.sendall(b"220 loopback ready\r\n")
            self._serve(connection, mode)

    def _serve(self, connection: socket.socket, mode: Mode) -> None:
        lines = connection.makefile("rb")
        taken: Taken | None = None
        while line := lines.readline():
            if mode is Mode.DELAYED:
                self.stopped.wait(PAUSE_SECONDS)
            match line[:4].upper():
                case b"EHLO" | b"HELO":
                    connection.sendall(b"250-loopback\r\n250 8BITMIME\r\n")
                case b"RCPT" if mode is Mode.TOO_MANY:
                    connection.sendall(b"452 4.5.3 too many recipients in this minute\r\n")
                case b"DATA":
                    connection.sendall(b"354 go ahead\r\n")
                    taken = self._receive(connection, lines, mode)
                    if mode not in {Mode.WELL, Mode.DELAYED}:
                        return
                case b"QUIT":
                    if taken is not None:
                        taken.answer_lost = False
                    connection.sendall(b"221 bye\r\n")
                    return
                case _:
                    connection.sendall(b"250 OK\r\n")

    def _receive(self, connection: socket.socket, lines: Any, mode: Mode) -> Taken | None:
        """Receive a mail. Its answer is lost unless the client, which has it, takes its leave."""
        data = b""
        while (line := lines.readline()) != b".\r\n":
            if not line:
                return None  # the client ended in the middle: nothing is taken
            data += line
        key = str(message_from_bytes(data)["Message-ID"]).strip("<>").partition("@")[0]
        if mode is Mode.SILENT_AT_THE_END:
            self._stay_silent(connection)
            return None
        taken = self.ledger.take(key)
        taken.answer_lost = True
        if mode in {Mode.SLOW, Mode.DELAYED}:
            self.stopped.wait(LATE_SECONDS if mode is Mode.SLOW else PAUSE_SECONDS)
        if mode is not Mode.LOSES_ANSWER:
            connection.sendall(b"250 2.0.0 taken\r\n")
        return taken

    def _stay_silent(self, connection: socket.socket) -> None:
        """Wait until the client goes away, as long as that takes."""
        connection.settimeout(0.5)
        while not self.stopped.is_set():
            with suppress(TimeoutError):
                if not connection.recv(1 << 16):
                    return


class SendGridServer:
    """The endpoint that sends mail; `mode` may change at any time."""

    def __init__(self, ledger: Ledger) -> None:
        self.mode = Mode.WELL
        self.ledger = ledger
        self.stopped = threading.Event()
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                owner.answer(self)

            def log_message(self, *_: Any) -> None:
                """Log nothing."""

        self._server = _ThreadingHttpServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True).start()

    def stop(self) -> None:
        self.stopped.set()
        self._server.shutdown()
        self._server.server_close()

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        mode = self.mode
        self.ledger.connections += 1
        body = json.loads(request.rfile.read(int(request.headers["Content-Length"])))
        if mode in {Mode.SILENT, Mode.SILENT_AT_THE_END}:
            request.connection.settimeout(0.5)
            while not self.stopped.is_set():
                with suppress(TimeoutError):
                    if not request.connection.recv(1 << 16):
                        return
            return
        statuses = {Mode.UNAVAILABLE: 503, Mode.TOO_MANY: 429}
        taken = None if mode in statuses else self.ledger.take(key_of(body))
        if mode is Mode.SLOW:
            self.stopped.wait(LATE_SECONDS)
        if taken is not None and (mode is Mode.LOSES_ANSWER or has_gone(request.connection)):
            taken.answer_lost = True
            request.close_connection = True
            return
        request.send_response(statuses.get(mode, 202))
        if mode is Mode.TOO_MANY:
            request.send_header("Retry-After", "2")
        request.send_header("Content-Length", "0")
        request.end_headers()


def has_gone(connection: socket.socket) -> bool:
    """Whether the client has closed its end of a connection, and so reads no answer."""
    connection.setblocking(False)
    try:
        return not connection.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return False
    finally:
        connection.setblocking(True)


KEY = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}-\d{3}-[a-z]+-[0-9a-f]{16}")
"""The key of a message about a run, wherever the request has it."""


def key_of(body: dict[str, Any]) -> str:
    """Return the key that a request to SendGrid carries; its subject where it carries none."""
    found = KEY.search(json.dumps({name: value for name, value in body.items() if name != "content"}))
    return found.group() if found else str(body["subject"])


class _ThreadingServer(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 100


class _ThreadingHttpServer(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore the errors of connections that a killed client closed."""


def _handler_of(server: MailServer) -> type[socketserver.BaseRequestHandler]:
    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with suppress(OSError):
                server.converse(self.request)

    return Handler
