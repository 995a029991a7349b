"""Google Cloud's Secret Manager on loopback, for the official client in unmodified processes.

The client has no variable for another address. It does honour a proxy and root certificates, so this is a server of the
protocol with a certificate for the real name, behind a proxy that leads that name to it and every other name nowhere.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Thread
from typing import Any

import grpc
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID
from google.cloud import secretmanager_v1 as secretmanager

from servers.channels import tcp_server

HOST = "secretmanager.googleapis.com"
SERVICE = "google.cloud.secretmanager.v1.SecretManagerService"
PROJECT = "my-project"
SECONDS = 30


@dataclass
class SecretManager:
    """The secrets of one project. A name that ends in `-forbidden` may not be read."""

    secrets: dict[str, str]
    asked: list[str] = field(default_factory=list)
    """The names of secrets, as they were asked for."""
    tokens: set[str] = field(default_factory=set)
    elsewhere: list[str] = field(default_factory=list)
    """Other names that the proxy was asked for."""
    fails: grpc.StatusCode | None = None
    """The answer to every request, which repeats the request."""

    @contextmanager
    def served(self, folder: Path) -> Iterator[dict[str, str]]:
        """Serve the secrets; yield the variables with which a process uses this server and no other."""
        certificate, key = _certificate()
        (folder / "roots.pem").write_bytes(certificate)
        (folder / "account.json").write_text(json.dumps(_account()))
        method = grpc.unary_unary_rpc_method_handler(
            self._access,
            request_deserializer=secretmanager.AccessSecretVersionRequest.deserialize,
            response_serializer=secretmanager.AccessSecretVersionResponse.serialize,
        )
        server = grpc.server(ThreadPoolExecutor(4))
        server.add_generic_rpc_handlers(
            [grpc.method_handlers_generic_handler(SERVICE, {"AccessSecretVersion": method})]
        )
        port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([(key, certificate)]))
        server.start()
        try:
            with tcp_server(self._proxy(port)) as proxy:
                yield {
                    "grpc_proxy": f"http://127.0.0.1:{proxy}",
                    "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH": str(folder / "roots.pem"),
                    "GOOGLE_APPLICATION_CREDENTIALS": str(folder / "account.json"),
                    "NO_GCE_CHECK": "true",
                }
        finally:
            server.stop(None).wait()

    def _access(self, request: Any, context: grpc.ServicerContext) -> Any:
        name = request.name.removeprefix(f"projects/{PROJECT}/secrets/").removesuffix("/versions/latest")
        self.asked.append(name)
        self.tokens |= {value for key, value in context.invocation_metadata() if key == "authorization"}
        if self.fails is not None:
            context.abort(self.fails, f"{request}")
        if name.endswith("-forbidden"):
            context.abort(grpc.StatusCode.PERMISSION_DENIED, "Permission 'secretmanager.versions.access' denied")
        if name not in self.secrets:
            context.abort(grpc.StatusCode.NOT_FOUND, f"Secret [{request.name}] not found or has no versions.")
        payload = secretmanager.SecretPayload(data=self.secrets[name].encode())
        return secretmanager.AccessSecretVersionResponse(name=request.name, payload=payload)

    def _proxy(self, port: int) -> Callable[[socket.socket], None]:
        def serve(connection: socket.socket) -> None:
            connection.settimeout(SECONDS)
            head = b""
            while b"\r\n\r\n" not in head and (piece := connection.recv(4096)):
                head += piece
            target = head.split(b" ")[1].decode()
            if target != f"{HOST}:443":
                self.elsewhere.append(target)
                connection.sendall(b"HTTP/1.1 403 Forbidden\r\n\r\n")
                return
            with socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as upstream:
                connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
                back = Thread(target=_pump, args=(upstream, connection), daemon=True)
                back.start()
                _pump(connection, upstream)
                back.join(SECONDS)

        return serve


def _pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while piece := source.recv(1 << 16):
            target.sendall(piece)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def _certificate() -> tuple[bytes, bytes]:
    """Return a certificate for the real name that signs itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, HOST)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(HOST)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    return made.public_bytes(serialization.Encoding.PEM), _pem(key)


def _account() -> dict[str, str]:
    """Return the key of a service account, which signs its tokens itself."""
    return {
        "type": "service_account",
        "project_id": PROJECT,
        "private_key_id": "1",
        "private_key": _pem(rsa.generate_private_key(65537, 2048)).decode(),
        "client_email": f"tests@{PROJECT}.iam.gserviceaccount.com",
        "client_id": "1",
        "token_uri": "http://127.0.0.1:9/token",
    }


def _pem(key: Any) -> bytes:
    return bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
