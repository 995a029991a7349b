"""Ports of loopback for the servers that tests start."""

from __future__ import annotations

import socket


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port
