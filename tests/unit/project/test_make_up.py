"""The processes that `make up` starts."""

from __future__ import annotations

import inspect
import os
import signal
import socket
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import psutil
import pytest
from fastapi import Depends, FastAPI, Request
from fastapi.testclient import TestClient

from airflow_home import PROJECT, make_home
from deploy_programs import program
from ml_metrics.core.airflow_options import airflow_option
from standalone_airflow import wait_until

START = """
import os, sys, types
from deploy_programs import program
component = program("components").Component(types.SimpleNamespace(output_queue=[]), "x", ["x"], dict(os.environ))
component.start()
"""
HOLD = """
from pathlib import Path
from deploy_programs import program
lock = program("one_airflow").hold(Path())
print("process 7, http://localhost:9", file=lock, flush=True)
print("held", flush=True)
input()
"""


@pytest.fixture(scope="module")
def components() -> ModuleType:
    return program("components")


@pytest.fixture(scope="module")
def one_airflow() -> ModuleType:
    return program("one_airflow")


def test_no_process_serves_logs(components: ModuleType) -> None:
    for name in ("scheduler", "triggerer"):
        assert components.Component(None, name, [name], {}).command == [name, "--skip-serve-logs"]
    assert components.Component(None, "dag-processor", ["dag-processor"], {}).command == ["dag-processor"]


@pytest.fixture
def parent(components: ModuleType, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """What starts the components. `interrupted` is set when one of them ends the whole Airflow."""
    interrupted = threading.Event()
    monkeypatch.setattr(components, "PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(components.Component, "broken", "")
    monkeypatch.setattr(components._thread, "interrupt_main", interrupted.set)
    return SimpleNamespace(output_queue=deque(), interrupted=interrupted)


@pytest.fixture
def run(
    components: ModuleType, parent: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[str], Any]]:
    """A function that starts a component with this script in place of `airflow`."""
    started = []
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    def start(script: str) -> Any:
        (tmp_path / "airflow").write_text(f"#!/bin/sh\ncd '{tmp_path}'\n{script}\n")
        (tmp_path / "airflow").chmod(0o755)
        component = components.Component(parent, "dag-processor", ["dag-processor"], dict(os.environ))
        component.start()
        started.append(component)
        return component

    yield start
    for component in started:
        component.stop()
        component.join(60)
        assert not component.is_alive()


def said(parent: SimpleNamespace) -> list[str]:
    return [line.decode().strip() for _, line in list(parent.output_queue)]


def test_a_component_that_ends_is_started_again(run: Callable[[str], Any], parent: SimpleNamespace) -> None:
    component = run("[ -e again ] || { touch again; echo UNIQUE constraint failed; exit 1; }; echo well; exec sleep 60")
    wait_until(lambda: "well" in said(parent), "the second process runs")
    assert said(parent) == ["UNIQUE constraint failed", "ended with 1: it is started again", "well"]
    assert component.process.poll() is None
    assert not parent.interrupted.is_set()


def test_a_component_that_leaves_a_process_behind_is_started_again(
    run: Callable[[str], Any], parent: SimpleNamespace
) -> None:
    """What it started holds its output open, as the workers of a scheduler do."""
    run("[ -e again ] || { touch again; sleep 60 & echo $! >left; kill -9 $$; }; echo well; exec sleep 60")
    wait_until(lambda: "well" in said(parent), "the second process runs")
    os.kill(int(Path(os.environ["PATH"].split(":")[0], "left").read_text()), signal.SIGKILL)


def test_a_component_that_always_ends_ends_airflow(
    run: Callable[[str], Any], parent: SimpleNamespace, components: ModuleType
) -> None:
    run("echo no; exit 3")
    assert parent.interrupted.wait(60)
    assert said(parent).count("no") == components.MOST_ENDS
    assert components.Component.broken == "dag-processor ended 5 times within 10 minutes, at last with 3"


def test_kill_9_comes_from_outside_and_never_ends_airflow(
    run: Callable[[str], Any], parent: SimpleNamespace, components: ModuleType
) -> None:
    run("echo >>starts; [ $(wc -l <starts) -gt 12 ] || kill -9 $$; echo well; exec sleep 60")
    wait_until(lambda: "well" in said(parent), "the last process runs")
    assert len(said(parent)) > 2 * components.MOST_ENDS
    assert not parent.interrupted.is_set()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with its parent")
def test_components_end_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    (tmp_path / "airflow").write_text("#!/bin/sh\necho $$ >pid.new; mv pid.new pid; exec sleep 600")
    (tmp_path / "airflow").chmod(0o755)
    environment = {**os.environ, "PYTHONPATH": str(PROJECT / "tests"), "PYTHONWARNINGS": ""}
    environment["PATH"] = f"{tmp_path}:/usr/bin:/bin"
    with subprocess.Popen([sys.executable, "-c", START], cwd=tmp_path, env=environment) as started:
        wait_until((tmp_path / "pid").exists, "the component runs")
        component = psutil.Process(int((tmp_path / "pid").read_text()))
        started.kill()
    component.wait(60)


def test_five_lines_say_what_a_user_needs(tmp_path: Path) -> None:
    standalone, passwords, log = program("standalone"), tmp_path / "passwords.json", tmp_path / "up.log"
    assert "one of your own" in standalone.five_lines("http://localhost:9", passwords, log)
    passwords.write_text('{"admin": "secret"}')
    assert standalone.five_lines("http://localhost:9", passwords, log).splitlines() == [
        "dashboard  http://localhost:9/ml-metrics/inbox",
        "user       admin",
        "password   secret",
        f"log        {log}",
        "stop       Ctrl-C",
    ]


@pytest.mark.parametrize(("status", "ready"), [(200, True), (503, False)])
def test_a_dashboard_answers_only_if_it_is_well(status: int, ready: bool) -> None:
    class Server(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()

    standalone = program("standalone")
    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        assert standalone.answers(address) is ready
        server.shutdown()
    assert not standalone.answers(address)


def test_a_home_has_one_airflow_at_a_time(one_airflow: ModuleType, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(PROJECT / "tests"), "PYTHONWARNINGS": ""}
    with subprocess.Popen(
        [sys.executable, "-c", HOLD], cwd=tmp_path, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(SystemExit, match=r"is running already: process 7, http://localhost:9"):
            one_airflow.hold(tmp_path)
        other.kill()
    one_airflow.hold(tmp_path).close()


@pytest.fixture
def configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path))
    make_home(tmp_path, "--configuration-only")
    return tmp_path / "airflow.cfg"


@contextmanager
def listening(host: str, port: int = 0) -> Iterator[int]:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as server:
        server.bind((host, port))
        server.listen()
        yield server.getsockname()[1]


def with_port(configuration: Path, port: int) -> None:
    configuration.write_text(configuration.read_text().replace("8080", str(port)))
    os.utime(configuration, (1000, 1000))


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "::1"])
def test_another_program_on_the_port_makes_airflow_take_another(
    one_airflow: ModuleType, configuration: Path, host: str
) -> None:
    with listening(host) as port:
        with_port(configuration, port)
        before = configuration.read_text()
        address = one_airflow.choose_port(configuration)
    found = int(address.rpartition(":")[2])
    assert address == f"http://localhost:{found}"
    assert port < found < port + one_airflow.PORTS
    assert configuration.read_text() == before.replace(str(port), str(found))
    assert (airflow_option("api", "port"), airflow_option("api", "base_url")) == (str(found), address)
    assert configuration.stat().st_mode & 0o777 == 0o600
    assert configuration.stat().st_mtime == 1000, "the database would be older"


def test_a_free_port_stays(one_airflow: ModuleType, configuration: Path) -> None:
    with listening("127.0.0.1") as port:
        with_port(configuration, port)
    before = configuration.read_text()
    assert one_airflow.choose_port(configuration) == f"http://localhost:{port}"
    assert configuration.read_text() == before


@pytest.mark.parametrize("asked", ["by a variable", "behind a proxy", "without a file"])
def test_a_port_that_a_person_has_chosen_is_not_exchanged(
    one_airflow: ModuleType, configuration: Path, asked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with listening("127.0.0.1") as port:
        if asked == "behind a proxy":
            with_port(configuration, port)
            text = configuration.read_text()
            configuration.write_text(text.replace(f"http://localhost:{port}", "https://tests.example.com"))
        else:
            monkeypatch.setenv("AIRFLOW__API__PORT", str(port))
        if asked == "without a file":
            configuration.unlink()
        before = configuration.exists() and configuration.read_text()
        with pytest.raises(SystemExit, match=f"Another program listens on port {port}, which is .api. port: end it"):
            one_airflow.choose_port(configuration)
        assert (configuration.exists() and configuration.read_text()) == before


def test_the_api_server_writes_log_entries_in_a_thread() -> None:
    written: list[tuple[str, Any, str]] = []

    def action_logging(event: str | None = None) -> Any:
        async def log_action(request: Request, user: str = Depends(lambda: "vera")) -> None:
            """Write an entry."""
            written.append((f"{event} of {user}", await request.json(), threading.current_thread().name))

        return log_action

    logging = program("api_server").in_thread(action_logging)
    assert inspect.signature(logging()).parameters["request"].annotation is Request, "FastAPI 0.117 resolves no names"
    app = FastAPI()

    @app.post("/variables", dependencies=[Depends(logging("post_variable"))])
    async def post_variable(request: Request) -> str:
        written.append(("route", await request.json(), threading.current_thread().name))
        return "posted"

    with TestClient(app) as client:
        assert client.post("/variables", json={"key": "k"}).json() == "posted"
    (entry, body, thread), (route, same, loop) = written
    assert (entry, route) == ("post_variable of vera", "route")
    assert body == same == {"key": "k"}
    assert thread != loop
