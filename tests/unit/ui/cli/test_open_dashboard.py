"""`ml-metrics open` prints the address of a page, and says whether Airflow answers there."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from unit.ui.cli.shell import Shell


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


def test_a_page_that_answers(airflow: str, monkeypatch: pytest.MonkeyPatch, ml: Shell) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", airflow)
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    assert ml("open") == f"{airflow}/ml-metrics/inbox\n"
    assert ml("open", "a-test") == f"{airflow}/ml-metrics/test?test=a-test\n"


def test_a_name_is_suggested(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ml: Shell) -> None:
    monkeypatch.setenv("AIRFLOW__ML_METRICS__CONFIG_ROOT", str(tmp_path))
    (tmp_path / "a.yaml").write_text("{name: resnet-v5, image: i, command: [c]}", encoding="utf-8")
    (tmp_path / "run-5").mkdir()
    assert "there is no test 'resnet-v6'; did you mean 'resnet-v5'?" in ml("open", "resnet-v6", code=2)
    assert f"there is no such folder; did you mean '{tmp_path}/run-5'?" in ml(
        "new", "b", "--command", "c", "--from", str(tmp_path / "run-6"), code=2
    )


def test_nothing_answers(monkeypatch: pytest.MonkeyPatch, ml: Shell) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "http://127.0.0.1:9")
    printed = ml("open", code=1)
    assert printed.startswith("http://127.0.0.1:9/ml-metrics/inbox\nnothing answers there")
    assert "make up" in printed
