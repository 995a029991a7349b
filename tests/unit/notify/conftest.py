"""Channels from environment variables, as Airflow reads connections from them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ml_metrics.airflow.channels import load_mail_settings
from ml_metrics.alerts.settings import MailSettings


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch) -> Any:
    def make(channels: str, **connections: dict[str, Any]) -> MailSettings:
        monkeypatch.setenv("AIRFLOW__ML_METRICS__CHANNELS", channels)
        for name, connection in connections.items():
            monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", json.dumps(connection))
        return load_mail_settings()

    return make
