"""The dashboard over a warehouse of its own, with a user whose permissions the test chooses."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, tzinfo
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from ml_metrics.airflow import versions as private
from ml_metrics.ui.dashboard import access, source
from ml_metrics.ui.dashboard import app as pages
from ml_metrics.ui.dashboard.app import app
from ml_metrics.warehouse import Warehouse, open_warehouse
from unit.ui.dashboard.sample_runs import TODAY, Rights, User, fill


class SameDay(datetime):
    """The clock stops before midnight, until which the sample runs count as those of today."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> datetime:
        return min(datetime.now(tz), TODAY.replace(hour=23, minute=59))


@pytest.fixture(autouse=True)
def today(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "datetime", SameDay)


@pytest.fixture
def warehouse_address(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/warehouse.db"


@pytest.fixture(scope="session")
def empty_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("empty") / "warehouse.db"
    with open_warehouse(f"sqlite:///{file}") as opened:
        opened.ensure_schema()
    return file


@pytest.fixture
def warehouse(
    warehouse_address: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Warehouse]:
    """A copy of an empty one, or of the sample runs: that takes a fraction of the time of making its tables."""
    if warehouse_address.startswith("sqlite"):
        with_runs = "filled" in request.fixturenames
        copied = request.getfixturevalue("filled_file" if with_runs else "empty_file")
        shutil.copy(copied, warehouse_address.removeprefix("sqlite:///"))
    with open_warehouse(warehouse_address) as opened:

        @contextmanager
        def same() -> Iterator[Warehouse]:
            yield opened

        monkeypatch.setattr(source, "warehouse", same)
        source.SOURCE.forget()
        yield opened
        source.SOURCE.forget()


@pytest.fixture(scope="session")
def filled_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("filled") / "warehouse.db"
    with open_warehouse(f"sqlite:///{file}") as opened:
        opened.ensure_schema()
        fill(opened)
    return file


@pytest.fixture
def filled(warehouse: Warehouse) -> Warehouse:
    """One with the sample runs."""
    return warehouse


@pytest.fixture
def as_user(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., TestClient]]:
    """Return a function that logs in a user with the given permissions and returns their browser."""

    def client(rights: Rights | None = None, name: str = "vera") -> TestClient:
        rights = rights or Rights()
        monkeypatch.setattr(private, "get_auth_manager", lambda: rights)
        app.dependency_overrides[private.get_user] = lambda: User(name)
        app.dependency_overrides[access.LOGIN_REQUIRED.dependency] = lambda: None
        return TestClient(app, follow_redirects=False)

    yield client
    app.dependency_overrides.clear()


@pytest.fixture
def browser(as_user: Callable[..., TestClient]) -> TestClient:
    return as_user()


@pytest.fixture
def shown(browser: TestClient, filled: Warehouse) -> TestClient:  # noqa: ARG001
    """A browser of a user who may see everything in the filled warehouse."""
    return browser
