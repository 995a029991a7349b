"""The services on loopback, configured by environment variables like emulators of Google services."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from servers.google_cloud import Logging, Monitoring


@pytest.fixture
def monitoring(monkeypatch: pytest.MonkeyPatch) -> Iterator[Monitoring]:
    service = Monitoring()
    with service.served() as address:
        monkeypatch.setenv("MONITORING_EMULATOR_HOST", address)
        yield service


@pytest.fixture
def logging_service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Logging]:
    service = Logging()
    with service.served() as address:
        monkeypatch.setenv("LOGGING_EMULATOR_HOST", address)
        yield service
