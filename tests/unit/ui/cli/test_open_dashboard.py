"""`ml-metrics open` prints the address of a page, and says whether Airflow answers there."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from ml_metrics.ui import cli


class Healthy(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def airflow() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Healthy) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_page_that_answers(airflow: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", airflow)
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    assert cli.main(["open"]) == 0
    assert capsys.readouterr().out == f"{airflow}/ml-metrics/inbox\n"
    assert cli.main(["open", "a-test"]) == 0
    assert capsys.readouterr().out == f"{airflow}/ml-metrics/test?test=a-test\n"


def test_nothing_answers(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "http://127.0.0.1:9")
    assert cli.main(["open"]) == 1
    printed = capsys.readouterr().out
    assert printed.startswith("http://127.0.0.1:9/ml-metrics/inbox\nnothing answers there")
    assert "make up" in printed
