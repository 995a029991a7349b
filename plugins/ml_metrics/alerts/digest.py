"""Messages about several tests: the digest of held messages, and the weekly heartbeat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ml_metrics.alerts.compose import one_line, render
from ml_metrics.alerts.message import Fact, Message, MessageKind, Reason

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import date, datetime


@dataclass(frozen=True, slots=True)
class HeldMessage:
    """A message that was not sent, or that a channel did not accept."""

    test: str
    subject: str
    reasons: tuple[str, ...]
    at: datetime
    held_because: str


@dataclass(frozen=True, slots=True)
class MissedRuns:
    """A test that ran less often than scheduled."""

    test: str
    expected: int
    ran: int
    last_run: datetime | None


@dataclass(frozen=True, slots=True)
class FailingTest:
    """A test with an open incident."""

    test: str
    since: datetime
    problems: tuple[str, ...]
    acknowledged_by: str = ""


@dataclass(frozen=True, slots=True)
class QuarantinedTest:
    """A test in quarantine."""

    test: str
    until: date
    reason: str


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The state of the tests that share a list of recipients."""

    since: datetime
    tests: int
    missed: tuple[MissedRuns, ...] = ()
    failing: tuple[FailingTest, ...] = ()
    quarantined: tuple[QuarantinedTest, ...] = ()


def compose_digest(
    key: str, messages: Sequence[HeldMessage], recipients: Sequence[str], sender: str, dashboard_url: str
) -> Message:
    """Return the message about everything that was held, by test and oldest first."""
    tests = sorted({message.test for message in messages})
    groups = [(test, [message for message in messages if message.test == test]) for test in tests]
    number = "1 message was" if len(messages) == 1 else f"{len(messages)} messages were"
    headline = f"{number} held back, about {_tests(len(tests))}"
    values = {"headline": headline, "groups": groups, "dashboard": f"{dashboard_url}/"}
    reasons = tuple(Reason(f"digest:{each.test}", each.subject.removeprefix("[ML Metrics] ")) for each in messages)
    subject = f"[ML Metrics] digest: {headline}"
    return _message(key, MessageKind.DIGEST, subject, values, reasons=reasons, recipients=recipients, sender=sender)


def compose_heartbeat(
    key: str, heartbeat: Heartbeat, recipients: Sequence[str], sender: str, dashboard_url: str
) -> Message:
    """Return the message about the tests that did not run as scheduled. It is sent even if there are none."""
    missed = len(heartbeat.missed)
    headline = (
        f"{missed} of {_tests(heartbeat.tests)} did not run as scheduled"
        if missed
        else f"{_tests(heartbeat.tests)} ran as scheduled"
    )
    values = {"headline": headline, "heartbeat": heartbeat, "dashboard": f"{dashboard_url}/"}
    reasons = tuple(
        Reason(f"silent:{one.test}", f"{one.test} ran {one.ran} of {one.expected} times") for one in heartbeat.missed
    )
    subject = f"[ML Metrics] weekly: {headline}"
    return _message(key, MessageKind.HEARTBEAT, subject, values, reasons=reasons, recipients=recipients, sender=sender)


def _message(  # noqa: PLR0913  (the parts of a message)
    key: str,
    kind: MessageKind,
    subject: str,
    values: Mapping[str, object],
    *,
    reasons: tuple[Reason, ...],
    recipients: Sequence[str],
    sender: str,
) -> Message:
    return Message(
        key=key,
        kind=kind,
        test="",
        run_key="",
        owner="",
        subject=one_line(subject),
        text=render(f"{kind}.txt", values),
        html=render(f"{kind}.html", values),
        recipients=tuple(one_line(recipient) for recipient in recipients),
        sender=one_line(sender),
        reasons=reasons,
        links=(Fact("dashboard", "every test", str(values["dashboard"])),),
    )


def _tests(number: int) -> str:
    return "1 test" if number == 1 else f"{number} tests"
