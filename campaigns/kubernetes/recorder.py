"""A proxy on loopback that forwards requests to the API server, and records their verbs and resources."""

from __future__ import annotations

import socket
import ssl
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPSConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

WRITES = {"POST": "create", "PUT": "update", "PATCH": "patch"}
CHUNK = 65536


@dataclass(frozen=True)
class Requests:
    """The verbs and resources of all requests, as a Role names them."""

    url: str
    pairs: set[tuple[str, str]] = field(default_factory=set)


def verb_and_resource(method: str, address: str) -> tuple[str, str] | None:
    """Return what a request needs in a Role, like `("list", "pods")`; None for requests outside a namespace."""
    url = urlsplit(address)
    _, _, rest = url.path.partition("/namespaces/")
    parts = rest.split("/")[1:]
    if not parts:
        return None
    resource = "/".join([parts[0], *parts[2:3]])
    named = len(parts) > 1
    if method in WRITES:
        return WRITES[method], resource
    if method == "DELETE":
        return ("delete" if named else "deletecollection"), resource
    if named:
        return "get", resource
    watches = parse_qs(url.query).get("watch", ["false"])[0].lower() in {"true", "1"}
    return ("watch" if watches else "list"), resource


def passed_on(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(CHUNK):
            target.sendall(data)
    for one in (source, target):
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)


def tunnel(request: BaseHTTPRequestHandler, other: ssl.SSLSocket) -> None:
    """Pass a websocket on, which a command in a pod is, byte by byte until one of both ends it."""
    fields = [f"{name}: {value}" for name, value in request.headers.items()]
    other.sendall("\r\n".join([request.requestline, *fields, "", ""]).encode())
    back = threading.Thread(target=passed_on, args=(other, request.connection), daemon=True)
    back.start()
    passed_on(request.connection, other)
    back.join()


@contextmanager
def recording(
    server: str, authority: str, intercept: Callable[[str, str, bytes], tuple[int, bytes] | None] = lambda *_: None
) -> Iterator[Requests]:
    """Run the proxy until the block ends. `intercept` may answer a request itself, with a status and a document."""
    upstream = urlsplit(server)
    context = ssl.create_default_context(cadata=authority)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def forward(self) -> None:
            if pair := verb_and_resource(self.command, self.path):
                requests.pairs.add(pair)
            if self.headers.get("Upgrade"):
                self.close_connection = True
                address = (upstream.hostname or "", upstream.port or 443)
                with context.wrap_socket(socket.create_connection(address), server_hostname=address[0]) as other:
                    tunnel(self, other)
                return
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if own := intercept(self.command, self.path, body):
                self.send_response(own[0])
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(own[1])))
                self.end_headers()
                self.wfile.write(own[1])
                return
            connection = HTTPSConnection(upstream.hostname or "", upstream.port or 443, context=context, timeout=600)
            try:
                headers = {name: value for name, value in self.headers.items() if name.lower() != "host"}
                connection.request(self.command, self.path, body or None, headers)
                answer = connection.getresponse()
                self.send_response(answer.status)
                for name, value in answer.getheaders():
                    if name.lower() not in {"transfer-encoding", "content-length", "connection"}:
                        self.send_header(name, value)
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                while data := answer.read1(CHUNK):
                    self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
                    self.wfile.flush()
                self.wfile.write(b"0\r\n\r\n")
            except OSError:
                self.close_connection = True
            finally:
                connection.close()

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = forward

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as proxy:
        requests = Requests(f"http://127.0.0.1:{proxy.server_address[1]}")
        thread = threading.Thread(target=proxy.serve_forever, daemon=True)
        thread.start()
        try:
            yield requests
        finally:
            proxy.shutdown()
            thread.join()
