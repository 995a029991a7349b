"""One attempt on several channels: what arrives, what is worth another attempt, and what hangs."""

from __future__ import annotations

import logging
import socket
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from ml_metrics.alerts import Smtp
from ml_metrics.alerts.channels.mail import Outbox
from ml_metrics.alerts.channels.sendgrid import SendGrid
from ml_metrics.alerts.compose import compose
from ml_metrics.alerts.outbox import attempt as attempts
from ml_metrics.alerts.outbox.attempt import SentRecord, attempt
from servers.channels import Answer, MailServer, Service
from unit.alerts.reports import REPORT

if TYPE_CHECKING:
    from pathlib import Path

    from ml_metrics.alerts.channels.channel import Channel
    from ml_metrics.alerts.message import Message
    from ml_metrics.alerts.outbox.attempt import DeliveryResult

MESSAGE = compose(REPORT, ["a@example.com", "b@example.com"])
FINE = Answer(202, None, {"X-Message-Id": "id-1"})


def once(channel: Channel, message: Message = MESSAGE, timeout: float = 5) -> DeliveryResult:
    (result,) = attempt(message, [channel], timeout)
    return result


def sendgrid(service: Service) -> SendGrid:
    return SendGrid("SG.key", sender="me@example.com", host=service.url)


def mail_server(server: MailServer) -> Smtp:
    return Smtp("127.0.0.1", server.port, implicit_tls=False, starttls=False)


def test_a_message_arrives_on_every_channel_and_each_is_recorded(
    service: Service, smtp: MailServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    service.answers(FINE)
    caplog.set_level(logging.INFO)
    record = SentRecord()
    channels: list[Channel] = [sendgrid(service), mail_server(smtp), Outbox(str(tmp_path))]
    results = attempt(MESSAGE, channels, 5, record)
    assert [(one.channel, one.delivered) for one in results] == [("sendgrid", True), ("smtp", True), ("outbox", True)]
    assert sorted(record.accepted) == ["outbox", "sendgrid", "smtp"]
    assert results[0].detail == "accepted by SendGrid as id-1"
    assert caplog.text.count(": delivered by ") == 3


def test_a_channel_that_never_answers_costs_no_more_than_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    class Hanging:
        name, secrets = "hanging", ()

        def send(self, message: Message, timeout: float) -> str:
            return socket.create_server(("127.0.0.1", 0)).accept()[1]

    monkeypatch.setattr(attempts, "MARGIN_SECONDS", 0.1)
    result = once(Hanging(), timeout=0.1)
    assert (result.delivered, result.temporary, result.detail) == (False, True, "no answer in time")


def test_other_recipients_of_a_rejected_one_get_their_mail(smtp: MailServer) -> None:
    smtp.refused = {"b@example.com": "450 greylisted"}
    record = SentRecord()
    (result,) = attempt(MESSAGE, [mail_server(smtp)], 5, record)
    assert (result.delivered, result.accepted, result.temporary) == (False, True, True)
    assert result.detail == "rejected for b@example.com: 450 greylisted; accepted for a@example.com"
    assert record.accepted["smtp"].remaining == result.remaining == ("b@example.com",)
    smtp.refused.clear()
    (again,) = attempt(MESSAGE, [mail_server(smtp)], 5, record)
    assert again.delivered
    assert [mail.rcpt_tos for mail in smtp.mails] == [["a@example.com"], ["b@example.com"]]


def test_a_server_that_rejects_the_login_the_mail_or_tls_gets_no_second_attempt(smtp: MailServer) -> None:
    wrong = replace(mail_server(smtp), login="me", password="battery staple")
    result = once(wrong)
    assert not result.temporary
    assert "535" in result.detail
    assert "battery staple" not in result.detail
    assert not once(Smtp("127.0.0.1", smtp.port, starttls=True)).temporary
    smtp.greeting = "554 looks like spam"
    result = once(mail_server(smtp))
    assert (result.temporary, smtp.mails) == (False, [])
    assert "127.0.0.1 answered 554 (looks like spam)" in result.detail


def test_a_failing_channel_does_not_affect_the_others(
    smtp: MailServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken:
        name, secrets = "broken", ("hunter2",)

        def send(self, message: Message, timeout: float) -> str:
            raise RuntimeError(f"{message.key} {timeout} hunter2")

    class Full(SentRecord):
        def add(self, result: DeliveryResult) -> None:
            raise OSError(f"No space left on device for {result.channel}")

    channels: list[Channel] = [Broken(), mail_server(smtp), Outbox(str(tmp_path))]
    results = attempt(MESSAGE, channels, 5, Full())
    assert [one.delivered for one in results] == [False, True, True]
    assert "hunter2" not in results[0].detail
    assert not results[0].temporary
    assert caplog.text.count("cannot be recorded: OSError: No space left on device") == 2


def test_a_message_without_recipients_fails(service: Service, smtp: MailServer) -> None:
    for one in attempt(replace(MESSAGE, recipients=()), [sendgrid(service), mail_server(smtp)], 5):
        assert one.detail.startswith("there are no recipients")
        assert not one.accepted
    assert service.requests == smtp.mails == []
