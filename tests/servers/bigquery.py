"""A BigQuery emulator on loopback, in its own Python environment and behind a strict proxy, for one test session."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
import urllib.request
from contextlib import suppress
from pathlib import Path

from google.auth.credentials import AnonymousCredentials
from google.cloud import bigquery

from ml_metrics.warehouse import BigQueryOptions
from servers.ports import free_port
from servers.strict_bigquery import StrictProxy

PROJECT = "local-proj"
LOCATION = "US"
IN_THE_US = BigQueryOptions(location=LOCATION, maximum_bytes_billed=10 << 30)
ROOT = Path(__file__).parents[2]


class BigQueryServer:
    """One server with one project."""

    def __init__(self) -> None:
        subprocess.run([Path(__file__).with_name("make_bigquery_venv.sh")], check=True, capture_output=True, text=True)
        self.folder = Path(tempfile.mkdtemp(prefix="ml-metrics-bigquery-"))
        emulator = free_port()
        self._datasets = 0
        self._to_drop: list[str] = []
        with (self.folder / "log").open("wb") as log:
            self.process = subprocess.Popen(
                [
                    ROOT / ".venv-bigquery/bin/python",
                    Path(__file__).with_name("bigquery_in_memory.py"),
                    *(str(emulator), self.folder / "data", PROJECT),
                ],
                stdout=log,
                stderr=log,
            )
        self._wait(emulator)
        self.front = StrictProxy(emulator)
        self.port = self.front.port

    def stop(self) -> None:
        self.front.close()
        self.process.terminate()
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.folder)

    def new_dataset(self, *, keep: bool = False) -> str:
        """Return the address of a new dataset, which does not exist yet.

        Earlier datasets without `keep` are dropped, because every dataset slows the emulator down.
        """
        self._drop_datasets()
        self._datasets += 1
        name = f"dataset_{self._datasets}"
        if not keep:
            self._to_drop.append(name)
        return f"bigquery://{PROJECT}/{name}"

    def _drop_datasets(self) -> None:
        client = self.client()
        while self._to_drop:
            client.delete_dataset(self._to_drop.pop(), delete_contents=True, not_found_ok=True)
        client.close()

    def client(self, port: int | None = None) -> bigquery.Client:
        """Return a real client. `port` is the port of a proxy in front of the server."""
        return client_of(port or self.port)

    def _wait(self, port: int) -> None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            with suppress(OSError):
                url = f"http://127.0.0.1:{port}/bigquery/v2/projects/{PROJECT}/datasets"
                with urllib.request.urlopen(url, timeout=10):
                    return
            time.sleep(0.1)
        raise TimeoutError((self.folder / "log").read_text())


def client_of(port: int) -> bigquery.Client:
    return bigquery.Client(
        project=PROJECT,
        credentials=AnonymousCredentials(),
        client_options={"api_endpoint": f"http://127.0.0.1:{port}"},
    )
