"""The processes that `make up` starts."""

from __future__ import annotations

import threading
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType
from typing import Any

import pytest
from fastapi import Depends, FastAPI, Request
from fastapi.testclient import TestClient

from airflow_home import PROJECT


def program(name: str) -> ModuleType:
    spec = spec_from_file_location(name, PROJECT / "deploy" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def standalone() -> ModuleType:
    return program("standalone")


def test_no_process_serves_logs(standalone: ModuleType) -> None:
    for name in ("scheduler", "triggerer"):
        assert standalone.Component(None, name, [name], {}).command == [name, "--skip-serve-logs"]
    assert standalone.Component(None, "dag-processor", ["dag-processor"], {}).command == ["dag-processor"]


def test_the_api_server_writes_log_entries_in_a_thread() -> None:
    written: list[tuple[str, Any, str]] = []

    def action_logging(event: str | None = None) -> Any:
        async def log_action(request: Request, user: str = Depends(lambda: "vera")) -> None:
            """Write an entry."""
            written.append((f"{event} of {user}", await request.json(), threading.current_thread().name))

        return log_action

    logging = program("api_server").in_thread(action_logging)
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
