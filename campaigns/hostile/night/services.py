"""Servers that answer as no service should, and connections to them with canaries as passwords."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from campaigns.hostile.night.canaries import CANARIES, GOOGLE_KEY
from ml_metrics.airflow.channels import FACTORIES
from servers.channels import tcp_server
from servers.ports import free_port

Serve = Callable[[socket.socket, bytearray], None]
"""Serves one connection, and keeps what it received."""
SILENT_SECONDS = 120
CHANNELS = ", ".join(("outbox", *FACTORIES))


def http(status: str, *headers: str, body: str = "", echo: bool = False) -> Serve:
    """Answer every request so; `echo` repeats the request in the body, as some proxies do in their error pages."""

    def serve(connection: socket.socket, received: bytearray) -> None:
        request = whole_request(connection)
        received += request
        content = request if echo else body.encode()
        head = [f"HTTP/1.1 {status}", *headers, f"Content-Length: {len(content)}", "Connection: close", "", ""]
        connection.sendall("\r\n".join(head).encode() + content)

    return serve


def whole_request(connection: socket.socket) -> bytes:
    """Return a request with its body, which may arrive after its head."""
    request = connection.recv(1 << 16)
    length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", request)
    missing = int(length[1]) - len(request.partition(b"\r\n\r\n")[2]) if length else 0
    while missing > 0 and (more := connection.recv(1 << 16)):
        request += more
        missing -= len(more)
    return request


def silence(connection: socket.socket, received: bytearray) -> None:
    """Accept the connection, and never say a word."""
    connection.settimeout(SILENT_SECONDS)
    while request := connection.recv(1 << 16):
        received += request


def garbage(connection: socket.socket, received: bytearray) -> None:
    """Answer every line of a mail client with that line, and every request with nonsense."""
    connection.sendall(b"220 ready\r\n")
    while request := connection.recv(1 << 16):
        received += request
        answers = {b"EHLO": b"250-ready\r\n250 AUTH PLAIN LOGIN\r\n", b"AUTH": b"535 5.7.8 no: " + request}
        connection.sendall(answers.get(request[:4].upper(), b"500 no: " + request))


ANSWERS: dict[str, Serve | None] = {
    "refused": None,
    "401": http("401 Unauthorized", "WWW-Authenticate: Basic", body='{"errors": [{"message": "wrong key"}]}'),
    "500 that repeats the request": http("500 Internal Server Error", echo=True),
    "400 that repeats the request": http("400 Bad Request", "Content-Type: application/json", echo=True),
    "redirect": http("307 Temporary Redirect", "Location: http://127.0.0.1:9/elsewhere"),
    "garbage": garbage,
    "silent": silence,
}
"""How the servers of all channels answer; None: nobody listens."""


@dataclass
class Server:
    """All services of a deployment, on one port."""

    answer: str
    port: int
    received: bytearray


@contextmanager
def server(answer: str) -> Iterator[Server]:
    received = bytearray()
    serve = ANSWERS[answer]
    if serve is None:
        yield Server(answer, free_port(), received)
        return
    with tcp_server(lambda connection: serve(connection, received)) as port:
        yield Server(answer, port, received)


def connections(port: int) -> dict[str, dict[str, object]]:
    """Return a connection for each channel, all to one port."""
    url = f"http://127.0.0.1:{port}"
    google = {
        "type": "service_account", "project_id": "my-project", "private_key": GOOGLE_KEY,
        "client_email": "alerts@my-project.iam.gserviceaccount.com", "token_uri": f"{url}/token",
    }  # fmt: skip
    mail = {"disable_ssl": True, "disable_tls": True, "from_email": "ml-metrics@example.com"}
    return {
        "smtp_default": {
            "conn_type": "smtp", "host": "127.0.0.1", "port": port, "login": "me", "password": CANARIES["smtp"],
            "extra": mail,
        },
        "sendgrid_default": {
            "conn_type": "sendgrid", "host": url, "password": CANARIES["sendgrid"], "extra": mail,
        },
        "ml_metrics_webhook": {"conn_type": "http", "host": f"{url}/services", "password": CANARIES["webhook"]},
        "ml_metrics_github": {
            "conn_type": "http", "host": url, "password": CANARIES["github"], "extra": {"repository": "owner/repo"},
        },
        "ml_metrics_teams": {"conn_type": "http", "password": f"{url}/{CANARIES['teams']}?sig={CANARIES['teams']}"},
        "ml_metrics_google_chat": {"conn_type": "http", "password": f"{url}/v1?key=k&token={CANARIES['google-chat']}"},
        "ml_metrics_pagerduty": {"conn_type": "http", "host": url, "password": CANARIES["pagerduty"]},
        "ml_metrics_opsgenie": {"conn_type": "http", "host": url, "password": CANARIES["opsgenie"]},
        "ml_metrics_mlflow": {"conn_type": "http", "host": url, "password": CANARIES["mlflow"]},
        "google_cloud_default": {
            "conn_type": "google_cloud_platform", "host": url,
            "extra": {"keyfile_dict": json.dumps(google), "project": "my-project"},
        },
    }  # fmt: skip


def warehouse(port: int) -> dict[str, object]:
    """Return a connection to a PostgreSQL that is not there."""
    return {
        "conn_type": "postgres", "host": "127.0.0.1", "port": port, "login": "me", "password": CANARIES["warehouse"],
        "schema": "metrics", "extra": {"sslmode": "disable", "connect_timeout": 3},
    }  # fmt: skip
