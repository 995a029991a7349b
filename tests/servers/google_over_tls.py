"""A service of Google on loopback, for the official client in unmodified processes.

The clients have no variable for another address. They do honour a proxy and root certificates, so this is a server of
the protocol with a certificate for the real name, behind a proxy that leads that name to it and others nowhere.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Thread
from typing import Any

import grpc
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

from servers.channels import tcp_server

PROJECT = "my-project"
SECONDS = 30


@contextmanager
def google_service(
    host: str, handler: grpc.GenericRpcHandler, folder: Path, elsewhere: list[str], token: str = "the-token"
) -> Iterator[dict[str, str]]:
    """Serve a service; yield the variables with which a process uses this server and no other.

    `elsewhere` gets the other names that the proxy is asked for, `token` is what a service account gets for its key.
    """
    certificate, key = _certificate(host)
    server = grpc.server(ThreadPoolExecutor(4))
    server.add_generic_rpc_handlers([handler])
    port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([(key, certificate)]))
    server.start()
    try:
        with tcp_server(_proxy(f"{host}:443", port, elsewhere)) as proxy, tcp_server(_tokens(token)) as tokens:
            (folder / "roots.pem").write_bytes(certificate)
            (folder / "account.json").write_text(json.dumps(_account(f"http://127.0.0.1:{tokens}/token")))
            yield {
                "grpc_proxy": f"http://127.0.0.1:{proxy}",
                "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH": str(folder / "roots.pem"),
                "GOOGLE_APPLICATION_CREDENTIALS": str(folder / "account.json"),
                "NO_GCE_CHECK": "true",
            }
    finally:
        server.stop(None).wait()


def _proxy(target: str, port: int, elsewhere: list[str]) -> Callable[[socket.socket], None]:
    def serve(connection: socket.socket) -> None:
        asked = _head(connection).split(b" ")[1].decode()
        if asked != target:
            elsewhere.append(asked)
            connection.sendall(b"HTTP/1.1 403 Forbidden\r\n\r\n")
            return
        with socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as upstream:
            connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            back = Thread(target=_pump, args=(upstream, connection), daemon=True)
            back.start()
            _pump(connection, upstream)
            back.join(SECONDS)

    return serve


def _tokens(token: str) -> Callable[[socket.socket], None]:
    def serve(connection: socket.socket) -> None:
        _head(connection)
        body = json.dumps({"access_token": token, "expires_in": 3600, "token_type": "Bearer"}).encode()
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close"
        connection.sendall(head.encode() + b"\r\n\r\n" + body)

    return serve


def _head(connection: socket.socket) -> bytes:
    connection.settimeout(SECONDS)
    head = b""
    while b"\r\n\r\n" not in head and (piece := connection.recv(4096)):
        head += piece
    return head


def _pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while piece := source.recv(1 << 16):
            target.sendall(piece)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def _certificate(host: str) -> tuple[bytes, bytes]:
    """Return a certificate for the real name that signs itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    return made.public_bytes(serialization.Encoding.PEM), _pem(key)


def _account(token_uri: str) -> dict[str, str]:
    """Return the key of a service account, whose tokens come from loopback."""
    return {
        "type": "service_account",
        "project_id": PROJECT,
        "private_key_id": "1",
        "private_key": _pem(rsa.generate_private_key(65537, 2048)).decode(),
        "client_email": f"tests@{PROJECT}.iam.gserviceaccount.com",
        "client_id": "1",
        "token_uri": token_uri,
    }


def _pem(key: Any) -> bytes:
    return bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
