"""A redis server on a private loopback port, as the broker of Celery."""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
import time
from contextlib import suppress

from missing import missing
from servers.ports import free_port


class RedisServer:
    """One server that keeps what it holds when it is killed, as the broker of Composer and that of Helm's chart do."""

    def __init__(self) -> None:
        if shutil.which("redis-server") is None:
            missing("redis is not installed: apt-get install redis-server")
        self._folder = tempfile.TemporaryDirectory(prefix="ml-metrics-redis-")
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self.start()

    def start(self) -> None:
        kept = ("--dir", self._folder.name, "--appendonly", "yes", "--appendfsync", "no", "--save", "")
        self.process = subprocess.Popen(
            ["redis-server", "--bind", "127.0.0.1", "--port", str(self.port), *kept],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=10) as connection:
                connection.sendall(b"PING\r\n")
                if connection.recv(16).startswith(b"+PONG"):
                    return
            time.sleep(0.05)
        raise TimeoutError("redis does not answer")

    def kill(self) -> None:
        """End the server. What it holds stays in its file."""
        self.process.kill()
        self.process.wait(timeout=30)

    def stop(self) -> None:
        self.kill()
        self._folder.cleanup()
