"""The processes that `make up` starts: their commands, and how long they wait for SQLite."""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType

import pytest

from airflow_home import PROJECT

CONNECTION = "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"


@pytest.fixture
def standalone() -> ModuleType:
    spec = spec_from_file_location("standalone", PROJECT / "deploy" / "standalone.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_no_process_serves_logs(standalone: ModuleType) -> None:
    for name in ("scheduler", "triggerer"):
        assert standalone.Component(None, name, [name], {}).command == [name, "--skip-serve-logs"]
    assert standalone.Component(None, "dag-processor", ["dag-processor"], {}).command == ["dag-processor"]


def test_only_the_api_server_is_impatient_for_sqlite(standalone: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CONNECTION, "sqlite:////home/airflow.db?timeout=60")
    found = {name: standalone.Component(None, name, [name], {"A": "b"}).env for name in ("scheduler", "api-server")}
    assert found == {
        "scheduler": {"A": "b"},
        "api-server": {"A": "b", CONNECTION: "sqlite:////home/airflow.db?timeout=5"},
    }


def test_another_database_stays_as_it_is(standalone: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CONNECTION, "postgresql+psycopg://airflow@db/airflow?application_name=a")
    assert standalone.Component(None, "api-server", ["api-server"], {}).env == {}
