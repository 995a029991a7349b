"""What a service answers neither moves the cursor of a terminal, nor turns a line around, nor shows a secret."""

from __future__ import annotations

import pytest

from ml_metrics.alerts import Smtp
from ml_metrics.alerts.compose import compose
from ml_metrics.alerts.outbox.attempt import attempt
from ml_metrics.core.errors import UndeliveredError
from ml_metrics.core.text import redacted
from servers.channels import Answer, MailServer, Service
from unit.alerts.channels.every_http_channel import HTTP_CHANNELS, SECRET
from unit.alerts.hostile import HOSTILE
from unit.alerts.reports import REPORT

MESSAGE = compose(REPORT, ["a@example.com"])
UNPRINTABLE = [one for one in HOSTILE if not one.isprintable()]


@pytest.mark.parametrize("said", UNPRINTABLE)
@pytest.mark.parametrize("channel", HTTP_CHANNELS)
def test_the_explanation_of_a_service_is_printable_wherever_it_goes(
    channel: str, said: str, service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    service.answers(*[Answer(400, {"message": f"{said} {SECRET} \x1b{SECRET}"})] * 2)
    found = HTTP_CHANNELS[channel](service.url)
    with pytest.raises(UndeliveredError) as raised:
        found.send(MESSAGE, 5)
    (result,) = attempt(MESSAGE, [found], 5)
    for text in (str(raised.value), result.detail, *caplog.messages):
        assert text.isprintable()
        assert SECRET not in text
    assert "answered 400" in result.detail


@pytest.mark.parametrize("said", ["\x1b[2J", "\u202egnp.exe", "\x9b31m"])
def test_the_reply_of_a_mail_server_is_printable(said: str, smtp: MailServer) -> None:
    smtp.greeting = f"554 no {said} mail"
    with pytest.raises(UndeliveredError) as raised:
        Smtp("127.0.0.1", smtp.port, starttls=False).send(MESSAGE, 5)
    (result,) = attempt(MESSAGE, [Smtp("127.0.0.1", smtp.port, starttls=False)], 5)
    assert str(raised.value).isprintable()
    assert result.detail.isprintable()
    assert "answered 554" in result.detail


def test_the_id_that_a_service_gives_a_message_is_printable(service: Service) -> None:
    service.answers(Answer(202, None, {"X-Message-Id": "id\x1b[2J\x9b1"}))
    (result,) = attempt(MESSAGE, [HTTP_CHANNELS["sendgrid"](service.url)], 5)
    assert (result.delivered, result.detail) == (True, r"accepted by SendGrid as id\x1b[2J\x9b1")


def test_a_secret_is_removed_also_where_it_was_escaped() -> None:
    secret = "pass\u202eword"
    assert redacted(str(UndeliveredError(f"no {secret}")), (secret,)) == "no ***"
    assert redacted(f"no {secret}", (secret,)) == "no ***"
