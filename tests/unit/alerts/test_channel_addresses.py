"""Which addresses a channel's connection may have."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ml_metrics.airflow.channels import channel_of
from ml_metrics.alerts import Unusable
from ml_metrics.alerts.channels.mail import Outbox
from ml_metrics.core.settings import Settings

KINDS = ("sendgrid", "webhook", "teams", "google_chat", "pagerduty", "opsgenie", "github")
KEY = "s3cr3t-that-lets-anyone-post"


def channel(kind: str, host: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, trusted: str = "") -> object:
    connection = {"conn_type": "http", "host": host, "password": KEY, "extra": {"repository": "owner/repo"}}
    monkeypatch.setenv("AIRFLOW_CONN_MINE", json.dumps(connection))
    return channel_of(f"{kind}:mine", Settings(plain_http_hosts=trusted), Outbox(str(tmp_path)))


@pytest.mark.parametrize(
    "host", ["http://chat.example", "HTTP://chat.example", "http://127.0.0.1.example", "http://10.0.0.1:80"]
)
@pytest.mark.parametrize("kind", KINDS)
def test_a_key_is_not_sent_unencrypted(kind: str, host: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = channel(kind, host, monkeypatch, tmp_path)
    assert isinstance(found, Unusable)
    assert "`mine`" in found.reason
    assert KEY not in found.reason


@pytest.mark.parametrize(
    "host", ["https://chat.example", "http://localhost:1", "http://127.0.0.1:1", "http://[::1]:1", "http://127.1.2.3"]
)
@pytest.mark.parametrize("kind", KINDS)
def test_this_machine_and_https_need_no_setting(
    kind: str, host: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert not isinstance(channel(kind, host, monkeypatch, tmp_path), Unusable)


@pytest.mark.parametrize("kind", KINDS)
def test_the_administrator_may_name_hosts(kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    trusted = "mattermost.internal, 10.0.0.1"
    assert not isinstance(channel(kind, "http://10.0.0.1:80", monkeypatch, tmp_path, trusted=trusted), Unusable)
    other = channel(kind, "http://10.0.0.2:80", monkeypatch, tmp_path, trusted=trusted)
    assert isinstance(other, Unusable)
    assert "plain_http_hosts" in other.reason
