"""Services on loopback, and channels from environment variables, as Airflow reads connections from them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ml_metrics.airflow import load_mail_settings
from ml_metrics.alerts import MailSettings
from ml_metrics.warehouse import Warehouse, open_warehouse
from servers.channels import MailServer, Service, http_service, mail_server
from unit.alerts.many_tests import Tests


@pytest.fixture
def service() -> Iterator[Service]:
    with http_service() as running:
        yield running


@pytest.fixture
def smtp() -> Iterator[MailServer]:
    with mail_server() as running:
        yield running


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch) -> Any:
    def make(channels: str, **connections: dict[str, Any]) -> MailSettings:
        monkeypatch.setenv("AIRFLOW__ML_METRICS__CHANNELS", channels)
        for name, connection in connections.items():
            monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", json.dumps(connection))
        return load_mail_settings()

    return make


@pytest.fixture
def warehouse(tmp_path: Path) -> Iterator[Warehouse]:
    with open_warehouse(f"sqlite:///{tmp_path}/warehouse.db", deployment="local") as opened:
        yield opened


@pytest.fixture
def tests(tmp_path: Path, warehouse: Warehouse) -> Tests:
    return Tests(tmp_path, warehouse)
