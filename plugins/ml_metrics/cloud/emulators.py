"""Servers in place of Google's, as the emulators of other Google services are found: by an environment variable."""

from __future__ import annotations

import os
from typing import Any

LOGGING = "LOGGING_EMULATOR_HOST"
MONITORING = "MONITORING_EMULATOR_HOST"


def emulator_channel(variable: str) -> Any:
    """A channel to `host:port` of an environment variable, without a secret; None where it is not set."""
    host = os.environ.get(variable)
    if not host:
        return None
    import grpc  # type: ignore[import-untyped]  # it ships no types

    return grpc.insecure_channel(host)
