"""Emulators of Google services, configured by environment variables like those that Google provides."""

from __future__ import annotations

import os
from typing import Any

LOGGING = "LOGGING_EMULATOR_HOST"
MONITORING = "MONITORING_EMULATOR_HOST"


def emulator_channel(variable: str) -> Any:
    """Return an insecure channel to the `host:port` in an environment variable; None if it is not set."""
    host = os.environ.get(variable)
    if not host:
        return None
    import grpc  # type: ignore[import-untyped]  # it ships no types

    return grpc.insecure_channel(host)
