"""Google Cloud's Secret Manager on loopback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
from google.cloud import secretmanager_v1 as secretmanager

from servers.google_over_tls import PROJECT, google_service

HOST = "secretmanager.googleapis.com"
SERVICE = "google.cloud.secretmanager.v1.SecretManagerService"


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
        method = grpc.unary_unary_rpc_method_handler(
            self._access,
            request_deserializer=secretmanager.AccessSecretVersionRequest.deserialize,
            response_serializer=secretmanager.AccessSecretVersionResponse.serialize,
        )
        handler = grpc.method_handlers_generic_handler(SERVICE, {"AccessSecretVersion": method})
        with google_service(HOST, handler, folder, self.elsewhere) as variables:
            yield variables

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
