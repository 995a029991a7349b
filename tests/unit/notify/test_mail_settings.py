from __future__ import annotations

from typing import Any

import pytest

from ml_metrics.alerts.channels.outbox import Outbox
from ml_metrics.config.definition import TestDefinition
from ml_metrics.notify.mail_settings import load_mail_settings

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
