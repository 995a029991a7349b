"""Services on loopback."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from servers.channels import MailServer, Service, http_service, mail_server


@pytest.fixture
def service() -> Iterator[Service]:
    with http_service() as running:
        yield running


@pytest.fixture
def smtp() -> Iterator[MailServer]:
    with mail_server() as running:
        yield running
