"""Mails within the size that a server states, and the errors of servers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from aiosmtpd.smtp import SMTP

from ml_metrics.alerts import Smtp
from ml_metrics.alerts.compose import compose
from ml_metrics.alerts.message import Picture
from ml_metrics.core.errors import UndeliveredError
from servers.channels import AnyPort, MailServer, mail_server
from unit.alerts.reports import REPORT

MESSAGE = compose(REPORT, ["a@example.com"])
LIMIT = 60_000


class SmallMails(AnyPort):
    def factory(self) -> SMTP:
        return SMTP(self.handler, data_size_limit=LIMIT)


@pytest.fixture
def small() -> Iterator[MailServer]:
    with mail_server(SmallMails) as server:
        yield server


def test_a_mail_that_is_too_large_goes_without_its_pictures(small: MailServer) -> None:
    charts = (Picture("metric-1", b"\x89PNG" * 20_000, "a chart"),)
    Smtp("127.0.0.1", small.port, starttls=False).send(replace(MESSAGE, pictures=charts), 10)
    (mail,) = small.mails
    assert isinstance(mail.content, bytes)
    assert b"image/png" not in mail.content
    assert b"Download the logs" in mail.content


def test_a_text_that_is_too_large_is_cut_with_a_note(small: MailServer) -> None:
    long = replace(MESSAGE, text="a line of a text\n" * 100_000, html="<p>a line of a page</p>" * 100_000)
    Smtp("127.0.0.1", small.port, starttls=False).send(long, 10)
    (mail,) = small.mails
    assert isinstance(mail.content, bytes)
    assert mail.content.count(b"is left out") == 2, "in the text and in the page"


@pytest.mark.parametrize(
    ("reply", "transient"), [("451 try again later", True), ("552 too large", False), ("554 spam", False)]
)
def test_the_reply_of_a_server_states_whether_another_try_is_worth_it(
    smtp: MailServer, reply: str, transient: bool
) -> None:
    smtp.greeting = reply
    with pytest.raises(UndeliveredError, match=f"answered {reply[:3]}") as caught:
        Smtp("127.0.0.1", smtp.port, starttls=False).send(MESSAGE, 5)
    assert caught.value.transient is transient


def test_an_address_that_the_server_cannot_take_is_a_permanent_error(smtp: MailServer) -> None:
    with pytest.raises(UndeliveredError, match="characters that this server cannot take") as caught:
        Smtp("127.0.0.1", smtp.port, starttls=False).send(replace(MESSAGE, recipients=("müller@example.com",)), 5)
    assert not caught.value.transient


def test_a_check_logs_in_and_sends_nothing(smtp: MailServer) -> None:
    server = Smtp("127.0.0.1", smtp.port, starttls=False)
    assert server.check(5) == f"127.0.0.1:{smtp.port} accepts the connection"
    assert smtp.mails == []
    with pytest.raises(UndeliveredError, match="cannot be reached"):
        Smtp("127.0.0.1", 1, starttls=False).check(5)
    with pytest.raises(UndeliveredError, match=r"127\.0\.0\.1"):
        replace(server, login="alice", password="wrong").check(5)
