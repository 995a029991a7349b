from __future__ import annotations

import json
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from ml_metrics import TestDefinition
from ml_metrics.airflow import load_mail_settings
from ml_metrics.airflow.channels import FACTORIES
from ml_metrics.alerts import Smtp, Unusable
from ml_metrics.alerts.channels.github import GitHubIssues
from ml_metrics.alerts.channels.mail import Outbox
from ml_metrics.alerts.channels.sendgrid import SendGrid
from ml_metrics.alerts.channels.webhook import Webhook
from ml_metrics.alerts.compose import compose
from ml_metrics.core.errors import UndeliveredError
from servers.channels import Answer, http_service
from unit.alerts.reports import REPORT

TEST = TestDefinition(name="t", image="i", command=("c",))


def test_the_default_channel_is_the_outbox(connect: Any) -> None:
    post = connect("outbox")
    assert post.channels == (post.outbox,)
    assert isinstance(post.outbox, Outbox)
    assert (post.recipients, post.sender, post.mails_per_hour) == ((), "", 10)


def test_channels_are_unique_and_in_the_order_of_the_settings(connect: Any) -> None:
    hook = {"conn_type": "http", "host": "https://chat.example/hook"}
    post = connect(" outbox, webhook:a,,webhook:b, outbox ", a=hook, b=hook)
    assert [channel.name for channel in post.channels] == ["outbox", "webhook:a", "webhook:b"]


def test_an_invalid_limit_falls_back_to_the_default(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("AIRFLOW__ML_METRICS__MAILS_PER_HOUR", "many")
    assert load_mail_settings().mails_per_hour == 10
    assert "mails_per_hour: 'many'" in caplog.text


def test_tests_without_recipients_use_the_default_ones(connect: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_VAR_ALERT-DESTINATION-EMAIL-ADDRESS", "a@example.com; b@example.com,")
    monkeypatch.setenv("AIRFLOW_VAR_ALERT-SENDER-EMAIL-ADDRESS", "tests@example.com")
    post = connect("outbox")
    assert post.recipients_of(()) == ("a@example.com", "b@example.com")
    assert post.recipients_of(("own@example.com",)) == ("own@example.com",)
    assert post.sender_of(TEST) == "tests@example.com"
    assert post.sender_of(TEST.model_copy(update={"sender": "own@example.com"})) == "own@example.com"


def test_an_smtp_connection_is_interpreted_as_by_airflow(connect: Any) -> None:
    extra = {"from_email": "me@example.com"}
    safe = {"conn_type": "smtp", "host": "mail.example", "login": "me", "password": "p", "extra": extra}
    assert connect("smtp", smtp_default=safe).channels == (
        Smtp("mail.example", 465, "me", "p", "me@example.com", implicit_tls=True),
    )
    plain = {"conn_type": "smtp", "host": "mail", "port": 1025, "extra": {"disable_ssl": True, "disable_tls": "true"}}
    assert connect("smtp:other", other=plain).channels == (
        Smtp("mail", 1025, implicit_tls=False, starttls=False, name="smtp:other"),
    )
    starttls = {"conn_type": "smtp", "host": "mail", "extra": {"disable_ssl": True, "ssl_context": "none"}}
    assert connect("smtp", smtp_default=starttls).channels == (Smtp("mail", 587, verify=False),)


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
    ("host", "password", "address"),
    [
        ("https://hooks.slack.com/services", "T0/B0/x", "https://hooks.slack.com/services/T0/B0/x"),
        ("", "https://hooks.slack.com/services/T0/B0/x", "https://hooks.slack.com/services/T0/B0/x"),
        ("https://chat.example/hooks/abc", "", "https://chat.example/hooks/abc"),
    ],
)
def test_the_address_of_a_webhook_is_in_host_or_password(connect: Any, host: str, password: str, address: str) -> None:
    post = connect("webhook", ml_metrics_webhook={"conn_type": "http", "host": host, "password": password})
    assert post.channels == (Webhook(address),)


def test_github_needs_a_repository_and_a_token(connect: Any) -> None:
    whole = {"conn_type": "http", "password": "ghp_x", "extra": {"repository": "owner/repo"}}
    assert connect("github", ml_metrics_github=whole).channels == (GitHubIssues("owner/repo", "ghp_x"),)
    (channel,) = connect("github", ml_metrics_github={"conn_type": "http", "password": "ghp_x"}).channels
    assert isinstance(channel, Unusable)
    assert "owner/name" in channel.reason


@pytest.mark.parametrize(
    ("channels", "why"),
    [
        ("smtp", "there is no Airflow connection `smtp_default`"),
        (
            "pigeon",
            f"'pigeon' is not one of outbox, {', '.join(FACTORIES)}",
        ),
        ("error_reporting:nowhere", "there is no Airflow connection `nowhere`"),
    ],
)
def test_a_misconfigured_channel_has_a_reason_and_does_not_affect_others(connect: Any, channels: str, why: str) -> None:
    post = connect(f"outbox,{channels}")
    assert isinstance(post.channels[0], Outbox)
    assert isinstance(post.channels[1], Unusable)
    assert why in post.channels[1].reason


def test_the_repr_of_a_channel_has_no_secret(connect: Any) -> None:
    hook = {"conn_type": "http", "host": "https://chat.example", "password": "hidden-path"}
    smtp = {"conn_type": "smtp", "host": "mail", "login": "me", "password": "hidden-password"}
    post = connect("webhook,smtp", ml_metrics_webhook=hook, smtp_default=smtp)
    assert "hidden" not in repr(post)


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


def test_the_error_about_an_invalid_key_does_not_contain_it(connect: Any) -> None:
    extra = {"keyfile_dict": json.dumps({"private_key": "hidden"}), "project": "my-project"}
    connection = {"conn_type": "google_cloud_platform", "extra": extra}
    (channel,) = connect("error_reporting", google_cloud_default=connection).channels
    with pytest.raises(UndeliveredError) as caught:
        channel.send(compose(REPORT, []), 5)
    assert "hidden" not in str(caught.value)
