from __future__ import annotations

import pytest

import ml_metrics_telemetry as telemetry
from ml_metrics_telemetry import streams


@pytest.fixture(autouse=True)
def nothing_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "_default", telemetry.NullMetricHandler())
    monkeypatch.setattr(streams, "_of_group", {})
