"""What the machines share, started once."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from campaigns.machines.services import Services
from missing import missing
from servers.own_disk import namespace

if TYPE_CHECKING:
    from collections.abc import Iterator

WHOLE = int(os.environ.get("ML_METRICS_MACHINES", "0"))
"""How many faults are played."""


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    if not namespace():
        missing("no process may have file systems of its own here (unshare -m)")
    running = Services.start(tmp_path_factory.mktemp("services"))
    yield running
    running.stop()


@pytest.fixture
def services(servers: Services, monkeypatch: pytest.MonkeyPatch) -> Services:
    """The servers; this process finds the bucket."""
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", servers.gcs.url)
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    return servers
