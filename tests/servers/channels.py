"""Services on loopback that record their requests and give prepared answers."""

from __future__ import annotations

import json
import socket
import threading
import time
from asyncio import run_coroutine_threadsafe, sleep
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult, Envelope


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    headers: dict[str, str]
    body: Any


@dataclass(frozen=True)
class Answer:
    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    delay: float = 0.0


@dataclass
class Service:
    """An HTTP server. `answers` returns the answer to each request; by default a success."""

    url: str = ""
    requests: list[Request] = field(default_factory=list)
    answer: Callable[[Request], Answer] = lambda _: Answer(202)

    def answers(self, *answers: Answer) -> None:
        """Give some answers one after the other, and the last one for ever."""
        left = list(answers)
        self.answer = lambda _: left.pop(0) if len(left) > 1 else left[0]


@contextmanager
def http_service() -> Iterator[Service]:
    service = Service()

    class Handler(BaseHTTPRequestHandler):
        def handle_any(self) -> None:
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            is_json = self.headers.get_content_type() == "application/json"
            body = json.loads(raw) if raw and is_json else raw.decode()
            request = Request(self.command, self.path, dict(self.headers), body)
            service.requests.append(request)
            answer = service.answer(request)
            time.sleep(answer.delay)
            data = b"" if answer.body is None else json.dumps(answer.body).encode()
            self.send_response(answer.status)
            for name, value in {**answer.headers, "Content-Length": str(len(data))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PATCH = do_DELETE = handle_any

        def log_message(self, *_: Any) -> None:
            """Log nothing: tests read the recorded requests."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    service.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield service
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def tcp_server(serve: Callable[[socket.socket], None]) -> Iterator[int]:
    """Call `serve` with each connection, in a thread, and yield the port."""
    listener = socket.create_server(("127.0.0.1", 0))
    stopped = threading.Event()

    def serve_one(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            serve(connection)

    def accept() -> None:
        while not stopped.is_set():
            with suppress(OSError):
                connection, _ = listener.accept()
                if stopped.is_set():
                    connection.close()
                    return
                threading.Thread(target=serve_one, args=(connection,), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        stopped.set()
        with suppress(OSError):
            socket.create_connection(listener.getsockname(), 1).close()  # wakes `accept`
        thread.join()
        listener.close()


def drip(connection: socket.socket, data: bytes, pause: float) -> None:
    """Send one byte after the other: each is in time, all together are not."""
    for byte in data:
        connection.sendall(bytes([byte]))
        time.sleep(pause)


@dataclass
class MailServer:
    """An SMTP server that can reject recipients and mails."""

    port: int = 0
    mails: list[Envelope] = field(default_factory=list)
    delay: float = 0.0
    """The seconds before the answer to each recipient."""
    refused: dict[str, str] = field(default_factory=dict)
    """The answers to recipients, in place of `250 OK`."""
    greeting: str = ""
    """The answer to every mail, in place of `250 OK`."""
    right_password: bytes = b"correct horse"
    logins: list[tuple[str, str]] = field(default_factory=list)

    async def handle_RCPT(
        self, _server: Any, _session: Any, envelope: Envelope, address: str, _options: list[str]
    ) -> str:
        await sleep(self.delay)
        if address in self.refused:
            return self.refused[address]
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Envelope) -> str:
        if self.greeting:
            return self.greeting
        self.mails.append(envelope)
        return "250 OK"

    def authenticate(self, _server: Any, _session: Any, _envelope: Any, _mechanism: str, data: Any) -> AuthResult:
        self.logins.append((data.login.decode(), data.password.decode()))
        right = data.password == self.right_password
        return AuthResult(success=right, handled=right)


class AnyPort(Controller):
    """Let the system choose the port: one that is free now may be taken a moment later."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._connections: list[Any] = []

    def factory(self) -> Any:
        self._connections.append(super().factory())
        return self._connections[-1]

    async def hang_up(self) -> None:
        """Close what a client has left open, while there still is a loop that can."""
        for one in self._connections:
            if one.transport:
                one.transport.close()
        await sleep(0)  # the loop closes sockets in its next round

    def _trigger_server(self) -> None:
        self.port = self.server.sockets[0].getsockname()[1]
        super()._trigger_server()


@contextmanager
def mail_server(kind: type[AnyPort] = AnyPort) -> Iterator[MailServer]:
    server = MailServer()
    controller = kind(server, hostname="127.0.0.1", port=0, authenticator=server.authenticate, auth_require_tls=False)
    controller.start()
    try:
        server.port = controller.port
        yield server
    finally:
        run_coroutine_threadsafe(controller.hang_up(), controller.loop).result(30)
        controller.stop()
