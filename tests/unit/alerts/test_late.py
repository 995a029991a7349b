"""Mails that arrive long after they were decided: after a weekend without a mail server, or one that is slow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email import message_from_bytes, policy

import pytest

from ml_metrics.alerts import MailSettings, send_pending
from ml_metrics.alerts.channels.mail import as_mail
from ml_metrics.alerts.message import Message
from ml_metrics.alerts.outbox.attempt import GIVEN_UP_AFTER
from ml_metrics.core.errors import UndeliveredError
from unit.alerts.many_tests import Clocked, Sent, clocked

DAY, HOUR = timedelta(days=1), timedelta(hours=1)
FRIDAY = datetime(2026, 11, 27, 18, tzinfo=UTC)


class Mails(Sent):
    """A mail server that can be down."""

    is_down = True
    tries = 0

    def send(self, message: Message, timeout: float) -> str:
        self.tries += 1
        if self.is_down:
            raise UndeliveredError("smtp cannot be reached", transient=True)
        return super().send(message, timeout)


class Weekend(Clocked):
    """A deployment whose mail server is down from Friday on."""

    sent: Mails
    others: tuple[Sent, ...] = ()

    @property
    def mail(self) -> MailSettings:
        return replace(super().mail, channels=(self.sent, *self.others))

    def sender(self) -> None:
        """Let every pause pass, and a sender come by."""
        self.warehouse.database.change("UPDATE messages SET next_attempt = :at", at=self.now - HOUR)
        send_pending(self.warehouse, self.mail)

    def states(self) -> set[str]:
        return {one.state for one in self.warehouse.messages.since(FRIDAY - DAY)}


@pytest.fixture
def weekend() -> Iterator[Weekend]:
    with clocked(Weekend, now=FRIDAY, sent=Mails()) as made:
        yield made


def bodies(message: Message) -> list[str]:
    mail = message_from_bytes(as_mail(message).as_bytes(), policy=policy.default)
    parts = [mail.get_body((kind,)) for kind in ("plain", "html")]
    return [" ".join(part.get_content().split()) for part in parts if part is not None]


@pytest.mark.parametrize(
    ("later", "state"),
    [
        ([], "The test still fails."),
        (["passes"], "The test has recovered since, on 2026-11-27 19:00 UTC."),
        (
            ["passes", "fails"],
            "The test has recovered since, on 2026-11-27 19:00 UTC, and has failed again since 2026-11-27 20:00 UTC.",
        ),
    ],
)
def test_a_late_alert_says_when_it_happened_and_whether_its_test_has_recovered(
    weekend: Weekend, later: list[str], state: str
) -> None:
    weekend.fails("a")
    for what in later:
        weekend.now += HOUR
        getattr(weekend, what)("a")
    weekend.now = FRIDAY + 4 * DAY
    weekend.sent.is_down = False
    weekend.sender()
    first = weekend.sent.messages[0]
    assert first.subject.endswith(" failed: exit code 1 (of 2026-11-27 18:00 UTC)")
    for body in bodies(first):
        assert f"This message is late: it is of 2026-11-27 18:00 UTC. {state}" in body
    assert first.warnings[-1].sentence.endswith(state), "chats show it, too"


def test_a_late_recovery_says_whether_its_test_has_failed_again(weekend: Weekend) -> None:
    for what in (weekend.fails, weekend.passes, weekend.fails):
        what("a")
        weekend.now += HOUR
    weekend.sent.is_down = False
    weekend.now += HOUR
    weekend.sender()
    _, recovered, again = weekend.sent.messages
    assert "The test has failed again since 2026-11-27 20:00 UTC." in recovered.text
    assert "The test still fails." in again.text


def test_a_message_that_is_not_late_is_sent_as_it_was_decided(weekend: Weekend) -> None:
    weekend.fails("a")
    weekend.now += timedelta(minutes=59)
    weekend.sent.is_down = False
    weekend.sender()
    (mail,) = weekend.sent.messages
    assert "late" not in mail.subject + mail.text + mail.html
    assert mail.warnings == ()


def test_after_a_weekend_two_mails_and_a_digest_arrive_instead_of_one_mail_each(weekend: Weekend) -> None:
    for name in "abcdefgh":
        weekend.fails(name)
    weekend.now += 2 * DAY
    weekend.passes("c")
    weekend.now += 2 * HOUR
    weekend.sender()
    assert weekend.sent.messages == []
    weekend.sent.is_down = False
    weekend.fails("new")
    for _ in range(2):
        weekend.sender()
        weekend.now += HOUR
    alone = [one.test for one in weekend.sent.messages if one.test != "new"]
    assert len(alone) == 2, "those that tried the mail server"
    weekend.digest()
    *_, digest = weekend.sent.messages
    told = sorted(" ".join(one.sentence.partition(":")[0].split()[:2]) for one in digest.reasons)
    assert told == sorted(["c recovered", *(f"{name} failed" for name in "abcdefgh" if name not in alone)])
    assert "since 2026-11-27" in digest.text
    weekend.sender()
    assert weekend.states() <= {"sent", "summarised"}
    assert len(weekend.sent.messages) == 4


def test_what_a_chat_has_shown_is_in_no_digest(weekend: Weekend) -> None:
    chat = Sent("webhook")
    weekend.others = (chat,)
    for name in "abcd":
        weekend.fails(name)
    weekend.now += 2 * DAY
    weekend.sent.is_down = False
    weekend.sender()
    assert (len(weekend.sent.messages), len(chat.messages)) == (4, 4)


def test_an_outage_of_almost_five_days_loses_nothing_and_one_of_more_is_reported_for_a_week(weekend: Weekend) -> None:
    weekend.fails("a")
    weekend.now += GIVEN_UP_AFTER - HOUR
    weekend.sender()
    assert weekend.states() == {"pending"}
    weekend.now += 2 * HOUR
    weekend.warehouse.database.change("UPDATE messages SET attempts = 3")
    weekend.sender()
    assert weekend.states() == {"dead"}
    weekend.now += 6 * DAY
    assert weekend.warehouse.senders.state(weekend.now).dead == 1
    assert len(weekend.warehouse.messages.dead(weekend.now - 7 * DAY)) == 1
    weekend.now += 2 * DAY
    assert weekend.warehouse.senders.state(weekend.now).dead == 0
    assert weekend.warehouse.messages.dead(weekend.now - 7 * DAY) == []
