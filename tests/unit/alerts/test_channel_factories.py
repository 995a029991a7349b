from __future__ import annotations

from typing import Any

import pytest

from ml_metrics.alerts import Unusable
from ml_metrics.alerts.channels.mail import Outbox
from ml_metrics.alerts.channels.paging import Opsgenie, PagerDuty
from ml_metrics.alerts.channels.webhook import GoogleChat, Teams

TEAMS = "https://prod-1.westus.logic.azure.com:443/workflows/x/triggers/manual/paths/invoke?api-version=1&sig=abc"
CHAT = "https://chat.googleapis.com/v1/spaces/AAA/messages?key=k&token=t"


def test_the_address_of_a_chat_is_the_password(connect: Any) -> None:
    teams, chat = {"conn_type": "http", "password": TEAMS}, {"conn_type": "http", "password": CHAT}
    assert connect("teams", ml_metrics_teams=teams).channels == (Teams(TEAMS),)
    assert connect("google_chat:vision", vision=chat).channels == (GoogleChat(CHAT, name="google_chat:vision"),)


def test_the_key_of_a_pager_is_the_password_and_its_region_the_host(connect: Any) -> None:
    assert connect("pagerduty", ml_metrics_pagerduty={"conn_type": "http", "password": "key"}).channels == (
        PagerDuty("key"),
    )
    europe = {"conn_type": "http", "host": "https://api.eu.opsgenie.com/", "password": " key\n"}
    assert connect("opsgenie", ml_metrics_opsgenie=europe).channels == (
        Opsgenie("key", host="https://api.eu.opsgenie.com"),
    )


@pytest.mark.parametrize(
    ("name", "connection", "reason"),
    [
        ("teams", {}, "`ml_metrics_teams`: its host or its password should be the address of the webhook"),
        ("google_chat", {"password": "token"}, "`ml_metrics_google_chat`: its host or its password"),
        ("pagerduty", {"host": "https://events.eu.pagerduty.com"}, "its password should be the integration key"),
        ("opsgenie", {}, "its password should be the key of an API integration"),
        ("opsgenie", {"password": "key", "host": "api.eu.opsgenie.com"}, "its host should be empty or an address"),
        ("pagerduty", None, "there is no Airflow connection `ml_metrics_pagerduty`"),
    ],
)
def test_a_connection_that_lacks_something_is_named(
    connect: Any, name: str, connection: dict[str, str] | None, reason: str
) -> None:
    connections = {} if connection is None else {f"ml_metrics_{name}": {"conn_type": "http", **connection}}
    (channel,) = connect(name, **connections).channels
    assert isinstance(channel, Unusable)
    assert reason in channel.reason


def test_the_repr_of_a_channel_has_no_secret(connect: Any) -> None:
    hidden = {"conn_type": "http", "password": "https://chat.example/hidden"}
    names = ("teams", "google_chat", "pagerduty", "opsgenie")
    post = connect(",".join(names), **{f"ml_metrics_{name}": hidden for name in names})
    assert len(post.channels) == 4
    assert "hidden" not in repr(post)


def test_on_composer_an_outbox_on_a_disk_accepts_nothing(connect: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMPOSER_ENVIRONMENT", "nightly")
    mail = connect("outbox")
    (channel,) = mail.channels
    assert isinstance(channel, Unusable)
    assert "Set a folder in a bucket, such as gs://my-bucket/outbox" in channel.reason
    assert mail.outbox is channel, "messages that no channel accepts do not vanish there either"
    monkeypatch.setenv("AIRFLOW__ML_METRICS__OUTBOX", "gs://my-bucket/outbox")
    assert connect("outbox").channels == (Outbox("gs://my-bucket/outbox"),)
