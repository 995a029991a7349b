from __future__ import annotations

import logging
import smtplib
import socket
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from ml_metrics.alerts.channels.channel import UndeliveredError
from ml_metrics.alerts.channels.outbox import Outbox
from ml_metrics.alerts.channels.sendgrid import SendGrid
from ml_metrics.alerts.channels.smtp import Smtp
from ml_metrics.alerts.channels.webhook import Webhook
from ml_metrics.alerts.compose import compose
from ml_metrics.alerts.delivery import (
    CHANNEL_TIMEOUT_SECONDS,
    DELIVERY_TIMEOUT_SECONDS,
    MAX_TRIES,
    Clock,
    DeliveryState,
    deliver,
    redacted,
)
from ml_metrics.alerts.message import Message
from servers.channels import Answer, MailServer, Service
from unit.alerts.reports import REPORT

MESSAGE = compose(REPORT, ["a@example.com", "b@example.com"])
BUSY = Answer(503, {"errors": [{"message": "try again"}]})
FINE = Answer(202, None, {"X-Message-Id": "id-1"})


@dataclass
class Time:
    """Time that passes only by waiting."""

    waits: list[float] = field(default_factory=list)

    @property
    def clock(self) -> Clock:
        return Clock(now=lambda: sum(self.waits), wait=self.waits.append)


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def outbox(tmp_path: Path) -> Outbox:
    return Outbox(str(tmp_path / "outbox"))


def kept(outbox: Outbox) -> list[Path]:
    return sorted(Path(outbox.folder).glob("*.eml"))


def sendgrid(service: Service) -> SendGrid:
    return SendGrid("SG.key", sender="me@example.com", host=service.url)


def test_a_busy_service_is_retried_with_growing_pauses(service: Service, time: Time, outbox: Outbox) -> None:
    service.answers(BUSY, BUSY, FINE)
    (done,) = deliver(MESSAGE, [sendgrid(service)], outbox, time.clock)
    assert (done.state, done.tries, done.detail) == (DeliveryState.DELIVERED, 3, "accepted by SendGrid as id-1")
    assert time.waits == [1, 2]
    assert kept(outbox) == []


def test_the_message_for_a_service_that_stays_busy_is_saved(
    service: Service, time: Time, outbox: Outbox, caplog: pytest.LogCaptureFixture
) -> None:
    service.answers(BUSY)
    (done,) = deliver(MESSAGE, [sendgrid(service)], outbox, time.clock)
    assert (done.state, done.tries) == (DeliveryState.KEPT, MAX_TRIES)
    assert sum(time.waits) < DELIVERY_TIMEOUT_SECONDS
    (path,) = kept(outbox)
    assert done.detail == f"SendGrid answered 503 (try again); saved as {path}"
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert done.detail in record.message


def test_retry_after_is_respected(service: Service, time: Time, outbox: Outbox) -> None:
    service.answers(Answer(429, headers={"Retry-After": "7"}), FINE)
    (done,) = deliver(MESSAGE, [sendgrid(service)], outbox, time.clock)
    assert (done.state, time.waits) == (DeliveryState.DELIVERED, [7])


def test_a_pause_beyond_the_timeout_is_not_started(service: Service, time: Time, outbox: Outbox) -> None:
    service.answers(Answer(429, headers={"Retry-After": "3600"}))
    (done,) = deliver(MESSAGE, [sendgrid(service)], outbox, time.clock)
    assert (done.state, done.tries, time.waits) == (DeliveryState.KEPT, 1, [])


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413])
def test_permanent_errors_are_not_retried(service: Service, time: Time, outbox: Outbox, status: int) -> None:
    service.answers(Answer(status, {"errors": [{"message": "no"}]}))
    (done,) = deliver(MESSAGE, [sendgrid(service)], outbox, time.clock)
    assert (done.state, done.tries, len(service.requests)) == (DeliveryState.KEPT, 1, 1)
    assert f"SendGrid answered {status} (no)" in done.detail


def test_a_redirect_is_not_followed(service: Service, time: Time, outbox: Outbox) -> None:
    service.answers(Answer(307, headers={"Location": f"{service.url}/elsewhere"}))
    (done,) = deliver(MESSAGE, [Webhook(f"{service.url}/hook")], outbox, time.clock)
    assert done.state is DeliveryState.KEPT
    assert [request.path for request in service.requests] == ["/hook"]


def test_a_timeout_is_retried(service: Service, outbox: Outbox) -> None:
    service.answers(Answer(200, delay=0.5), FINE)
    hook = Webhook(f"{service.url}/hook")
    with pytest.raises(UndeliveredError, match="took too long") as caught:
        hook.send(MESSAGE, 0.1)
    assert caught.value.transient
    (done,) = deliver(MESSAGE, [hook], outbox)
    assert done.state is DeliveryState.DELIVERED


def test_a_mail_server_that_never_answers_took_too_long() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(UndeliveredError, match="took too long"):
        Smtp("127.0.0.1", silent.getsockname()[1], starttls=False).send(MESSAGE, 0.1)


def test_an_unreachable_service_is_retried_and_the_message_saved(outbox: Outbox) -> None:
    channels = [
        SendGrid("SG.key", sender="me@example.com", host="http://127.0.0.1:9"),
        Smtp("127.0.0.1", 9, implicit_tls=False, starttls=False),
        Webhook("http://127.0.0.1:9/hook"),
    ]
    for channel in channels:
        (done,) = deliver(MESSAGE, [channel], outbox, Time().clock)
        assert (done.state, done.tries) == (DeliveryState.KEPT, MAX_TRIES)
        assert "cannot be reached (ConnectionRefusedError)" in done.detail
    assert len(kept(outbox)) == 1


def test_other_recipients_of_a_rejected_one_get_their_mail(smtp: MailServer, time: Time, outbox: Outbox) -> None:
    smtp.refused = {"b@example.com": "550 no such user"}
    server = Smtp("127.0.0.1", smtp.port, implicit_tls=False, starttls=False)
    (done,) = deliver(MESSAGE, [server], outbox, time.clock)
    assert (done.state, done.tries) == (DeliveryState.KEPT, 1)
    assert "rejected for b@example.com: 550 no such user; accepted for a@example.com" in done.detail
    assert [mail.rcpt_tos for mail in smtp.mails] == [["a@example.com"]]


def test_a_temporarily_rejected_recipient_is_retried_alone(smtp: MailServer, outbox: Outbox) -> None:
    smtp.refused = {"b@example.com": "450 greylisted"}
    clock = Clock(now=lambda: 0.0, wait=lambda _: smtp.refused.clear())
    server = Smtp("127.0.0.1", smtp.port, implicit_tls=False, starttls=False)
    (done,) = deliver(MESSAGE, [server], outbox, clock)
    assert (done.state, done.tries) == (DeliveryState.DELIVERED, 2)
    assert [mail.rcpt_tos for mail in smtp.mails] == [["a@example.com"], ["b@example.com"]]


def test_a_mail_rejected_by_the_server_is_not_retried(smtp: MailServer, time: Time, outbox: Outbox) -> None:
    smtp.greeting = "554 looks like spam"
    server = Smtp("127.0.0.1", smtp.port, implicit_tls=False, starttls=False)
    (done,) = deliver(MESSAGE, [server], outbox, time.clock)
    assert (done.state, done.tries) == (DeliveryState.KEPT, 1)
    assert "127.0.0.1 answered 554 (looks like spam)" in done.detail


def test_a_server_without_tls_gets_no_mail_if_tls_is_required(smtp: MailServer, time: Time, outbox: Outbox) -> None:
    (done,) = deliver(MESSAGE, [Smtp("127.0.0.1", smtp.port, starttls=True)], outbox, time.clock)
    assert (done.state, done.tries, smtp.mails) == (DeliveryState.KEPT, 1, [])


def test_a_failing_channel_does_not_affect_the_others(
    service: Service, smtp: MailServer, time: Time, outbox: Outbox
) -> None:
    class Broken:
        name = "broken"
        secrets = ("hunter2",)

        def send(self, message: Message, timeout: float) -> str:
            raise RuntimeError(f"{message.key} {timeout} hunter2")

    service.answers(Answer(401))
    server = Smtp("127.0.0.1", smtp.port, implicit_tls=False, starttls=False)
    done = deliver(MESSAGE, [Broken(), sendgrid(service), server, outbox], outbox, time.clock)
    assert [one.state for one in done] == [
        DeliveryState.KEPT,
        DeliveryState.KEPT,
        DeliveryState.DELIVERED,
        DeliveryState.DELIVERED,
    ]
    assert "hunter2" not in done[0].detail
    assert len(smtp.mails) == len(kept(outbox)) == 1


def test_a_message_that_cannot_be_saved_is_logged(
    service: Service, time: Time, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "outbox").write_text("a file")
    service.answers(Answer(401))
    (done,) = deliver(MESSAGE, [sendgrid(service)], Outbox(str(tmp_path / "outbox")), time.clock)
    assert done.detail.endswith("could not be saved in the outbox either; this log has its text")
    assert REPORT.problems[0].sentence in caplog.text


def test_a_message_without_recipients_fails(service: Service, smtp: MailServer, time: Time, outbox: Outbox) -> None:
    without_recipients = replace(MESSAGE, recipients=())
    server = Smtp("127.0.0.1", smtp.port, implicit_tls=False, starttls=False)
    for one in deliver(without_recipients, [sendgrid(service), server], outbox, time.clock):
        assert one.detail.startswith("there are no recipients")
    assert service.requests == smtp.mails == []


def test_the_timeouts_fit_into_that_of_the_dag_processor() -> None:
    assert DELIVERY_TIMEOUT_SECONDS + CHANNEL_TIMEOUT_SECONDS < 50


def test_the_longest_secrets_are_removed_first() -> None:
    assert redacted("a secret and a secret-er one", ("secret", "", "secret-er")) == "a *** and a *** one"


def test_a_wrong_login_is_a_permanent_error(smtp: MailServer, time: Time, outbox: Outbox) -> None:
    right = Smtp("127.0.0.1", smtp.port, "me", "correct horse", implicit_tls=False, starttls=False)
    assert deliver(MESSAGE, [right], outbox, time.clock)[0].state is DeliveryState.DELIVERED
    (done,) = deliver(MESSAGE, [replace(right, password="battery staple")], outbox, time.clock)
    assert (done.state, done.tries) == (DeliveryState.KEPT, 1)
    assert "535" in done.detail
    assert "battery staple" not in done.detail
    assert smtp.logins[0] == ("me", "correct horse")


def test_the_error_classes_of_smtplib() -> None:
    assert issubclass(smtplib.SMTPAuthenticationError, smtplib.SMTPResponseException)
    assert not issubclass(smtplib.SMTPRecipientsRefused, smtplib.SMTPResponseException)
