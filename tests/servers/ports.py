"""Loopback ports for the servers of tests."""

from __future__ import annotations

import random
import socket

PORTS = range(10_000, 32_768)
"""Below the ports that the kernel gives to connections: none of those takes a port before its server starts."""


def free_port() -> int:
    """Return a port that no process listens on, and that no other process of the tests gets while this one lives."""
    for port in random.SystemRandom().sample(PORTS, 1_000):
        reservation = socket.socket(type=socket.SOCK_DGRAM)
        try:
            reservation.bind(("127.0.0.1", port))
            with socket.socket() as listener:
                listener.bind(("127.0.0.1", port))
        except OSError:
            reservation.close()
            continue
        reservation.detach()  # open as long as this process, and of the other kind than the server's
        return port
    raise RuntimeError(f"none of 1,000 ports of {PORTS} is free")
