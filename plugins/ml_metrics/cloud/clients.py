"""Clients of Google services, or of their emulators."""

from __future__ import annotations

import os
from typing import Any

from ml_metrics.errors import StorageError


def connect(service: str, client: Any, transport: Any, emulator: str) -> Any:
    """Return a client of a service, or of the emulator at the `host:port` in an environment variable."""
    from google.auth.exceptions import GoogleAuthError

    if host := os.environ.get(emulator):
        import grpc  # type: ignore[import-untyped]  # it ships no types

        return client(transport=transport(channel=grpc.insecure_channel(host)))
    try:
        return client()
    except GoogleAuthError as error:
        raise StorageError(f"{service}: no credentials: {error}") from error
