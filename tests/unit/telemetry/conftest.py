from __future__ import annotations

import pytest

from ml_metrics import telemetry
from ml_metrics.telemetry import streams


@pytest.fixture(autouse=True)
def nothing_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "_default", telemetry.NullMetricHandler())
    monkeypatch.setattr(streams, "_of_group", {})
