"""Which addresses a channel's connection may have."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from ml_metrics import TestDefinition
from ml_metrics.airflow.channels import FACTORIES, channel_of
from ml_metrics.alerts import Smtp, Unusable
from ml_metrics.alerts.channels.channel import Channel
from ml_metrics.alerts.channels.github import GitHubIssues
from ml_metrics.alerts.channels.mail import Outbox
from ml_metrics.alerts.channels.paging import Opsgenie, PagerDuty
from ml_metrics.alerts.channels.sendgrid import SendGrid
from ml_metrics.alerts.channels.webhook import GoogleChat, Teams, Webhook
from ml_metrics.alerts.compose import compose
from ml_metrics.core.settings import Settings
from servers.channels import Answer, http_service
from unit.alerts.channels.every_http_channel import HTTP_CHANNELS
from unit.alerts.reports import REPORT

TEST = TestDefinition(name="t", image="i", command=("c",))


def test_channels_are_unique_and_in_the_order_of_the_settings(connect: Any) -> None:
    hook = {"conn_type": "http", "host": "https://chat.example/hook"}
    post = connect(" outbox, webhook:a,,webhook:b, outbox ", a=hook, b=hook)
    assert [channel.name for channel in post.channels] == ["outbox", "webhook:a", "webhook:b"]


def test_tests_without_recipients_use_the_default_ones(connect: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_VAR_ALERT-DESTINATION-EMAIL-ADDRESS", "a@example.com; b@example.com,")
    monkeypatch.setenv("AIRFLOW_VAR_ALERT-SENDER-EMAIL-ADDRESS", "tests@example.com")
    post = connect("outbox")
    assert post.recipients_of(()) == ("a@example.com", "b@example.com")
    assert post.recipients_of(("own@example.com",)) == ("own@example.com",)
    assert post.sender_of(TEST) == "tests@example.com"
    assert post.sender_of(TEST.model_copy(update={"sender": "own@example.com"})) == "own@example.com"


SLACK = "https://hooks.slack.com/services/T0/B0/x"
AZURE = "https://prod-1.westus.logic.azure.com:443/workflows/x/triggers/manual/paths/invoke?api-version=1&sig=abc"
CHAT = "https://chat.googleapis.com/v1/spaces/AAA/messages?key=k&token=t"


@pytest.mark.parametrize(
    ("name", "connection", "expected"),
    [
        (
            "smtp",
            {"host": "mail.example", "login": "me", "password": "p", "extra": {"from_email": "me@example.com"}},
            Smtp("mail.example", 465, "me", "p", "me@example.com", implicit_tls=True),
        ),
        (
            "smtp:smtp_default",
            {"host": "mail", "port": 1025, "extra": {"disable_ssl": True, "disable_tls": "true"}},
            Smtp("mail", 1025, implicit_tls=False, starttls=False, name="smtp:smtp_default"),
        ),
        (
            "smtp",
            {"host": "mail", "extra": {"disable_ssl": True, "ssl_context": "none"}},
            Smtp("mail", 587, verify=False),
        ),
        ("webhook", {"host": "https://hooks.slack.com/services", "password": "T0/B0/x"}, Webhook(SLACK)),
        ("webhook", {"password": SLACK}, Webhook(SLACK)),
        ("webhook", {"host": "https://chat.example/hooks/abc"}, Webhook("https://chat.example/hooks/abc")),
        ("teams", {"password": AZURE}, Teams(AZURE)),
        ("google_chat", {"host": CHAT}, GoogleChat(CHAT)),
        ("github", {"password": "ghp_x", "extra": {"repository": "owner/repo"}}, GitHubIssues("owner/repo", "ghp_x")),
        ("pagerduty", {"password": "key"}, PagerDuty("key")),
        (
            "opsgenie",
            {"host": "https://api.eu.opsgenie.com/", "password": " key\n"},
            Opsgenie("key", host="https://api.eu.opsgenie.com"),
        ),
    ],
)
def test_a_connection_is_interpreted(connect: Any, name: str, connection: dict[str, Any], expected: Channel) -> None:
    """Mail servers as by Airflow; the address of a chat is in host or password, and a pager's region in its host."""
    kind = name.partition(":")[0]
    own = {FACTORIES[kind][1]: {"conn_type": "smtp" if kind == "smtp" else "http", **connection}}
    assert connect(name, **own).channels == (expected,)


def test_the_key_of_sendgrid_is_read_from_three_places(connect: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SENDGRID_API_KEY", raising=False)
    (channel,) = connect("sendgrid").channels
    assert isinstance(channel, Unusable)
    assert "sendgrid-api-key" in channel.reason
    monkeypatch.setenv("SENDGRID_API_KEY", "of the environment")
    assert connect("sendgrid").channels == (SendGrid("of the environment"),)
    monkeypatch.setenv("AIRFLOW_VAR_SENDGRID-API-KEY", "of a variable")
    assert connect("sendgrid").channels == (SendGrid("of a variable"),)
    connection = {"conn_type": "sendgrid", "password": "of the connection", "host": "https://api.eu.sendgrid.com/"}
    assert connect("sendgrid", sendgrid_default=connection).channels == (
        SendGrid("of the connection", host="https://api.eu.sendgrid.com"),
    )


@pytest.mark.parametrize(
    ("channels", "why"),
    [
        ("smtp", "there is no Airflow connection `smtp_default`"),
        ("pigeon", f"'pigeon' is not one of outbox, {', '.join(FACTORIES)}"),
        ("error_reporting:nowhere", "there is no Airflow connection `nowhere`"),
    ],
)
def test_a_misconfigured_channel_has_a_reason_and_does_not_affect_others(connect: Any, channels: str, why: str) -> None:
    post = connect(f"outbox,{channels}")
    assert isinstance(post.channels[0], Outbox)
    assert isinstance(post.channels[1], Unusable)
    assert why in post.channels[1].reason


def test_error_reporting_logs_in_with_the_key_of_its_connection(connect: Any) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    with http_service() as google:
        google.answer = lambda request: Answer(
            200, {"access_token": "ya29.token", "expires_in": 3600} if request.path == "/token" else {}
        )
        keyfile = {
            "type": "service_account",
            "project_id": "my-project",
            "private_key": pem,
            "client_email": "alerts@my-project.iam.gserviceaccount.com",
            "token_uri": f"{google.url}/token",
        }
        extra = {"keyfile_dict": json.dumps(keyfile), "project": "my-project"}
        connection = {"conn_type": "google_cloud_platform", "host": google.url, "extra": extra}
        (channel,) = connect("error_reporting", google_cloud_default=connection).channels
        message = compose(REPORT, [])
        assert channel.send(message, 5) == "2 events in project my-project"
        token, *events = google.requests
        assert token.path == "/token"
        assert {event.headers["Authorization"] for event in events} == {"Bearer ya29.token"}
        assert {event.path for event in events} == {"/v1beta1/projects/my-project/events:report"}


KINDS = ("sendgrid", "webhook", "teams", "google_chat", "pagerduty", "opsgenie", "github")
KEY = "s3cr3t-that-lets-anyone-post"
DOCS = Path(__file__).parents[3] / "docs"


@pytest.mark.parametrize("kind", FACTORIES)
def test_each_channel_is_in_the_docs_and_under_attack(kind: str) -> None:
    connection = FACTORIES[kind][1]
    assert f"\n| `{kind}` | `{connection}` |" in (DOCS / "alerts.md").read_text(), "docs/alerts.md has a row of each"
    settings = (DOCS / "settings.md").read_text()
    assert f"`{kind}`" in settings, "the docstring of Settings.channels (core/settings.py) names each; then `make docs`"
    assert f"`{connection}`" in settings, "the table of connections in docs/settings.md names each"
    if kind not in {"smtp", "mlflow"}:  # which have tests of their own
        assert kind in HTTP_CHANNELS, (
            "hanging and hostile servers wait in tests/unit/alerts/channels/every_http_channel.py"
        )
    if kind not in {"smtp", "mlflow", "error_reporting"}:
        assert kind in KINDS, "KINDS of this file asks whether a key is sent unencrypted"


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
    "host",
    ["https://chat.example", "http://localhost:1", "http://127.0.0.1:1", "http://[::1]:1", "http://127.1.2.3",
     "http://10.0.0.1:80"],
)  # fmt: skip
@pytest.mark.parametrize("kind", KINDS)
def test_https_this_machine_and_hosts_that_the_administrator_names_are_trusted(
    kind: str, host: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    trusted = "mattermost.internal, 10.0.0.1"
    assert not isinstance(channel(kind, host, monkeypatch, tmp_path, trusted=trusted), Unusable)
    other = channel(kind, "http://10.0.0.2:80", monkeypatch, tmp_path, trusted=trusted)
    assert isinstance(other, Unusable)
    assert "plain_http_hosts" in other.reason


@pytest.mark.parametrize(
    ("name", "connection", "reason"),
    [
        ("teams", {}, "`ml_metrics_teams`: its host or its password should be the address of the webhook"),
        ("google_chat", {"password": "token"}, "`ml_metrics_google_chat`: its host or its password"),
        ("pagerduty", {"host": "https://events.eu.pagerduty.com"}, "its password should be the integration key"),
        ("opsgenie", {}, "its password should be the key of an API integration"),
        ("opsgenie", {"password": "key", "host": "api.eu.opsgenie.com"}, "its host should be empty or an address"),
        ("pagerduty", None, "there is no Airflow connection `ml_metrics_pagerduty`"),
        ("github", {"password": "ghp_x"}, 'its extra {"repository": "owner/name"}'),
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
