"""The words of messages about several tests: the digest of what was held back, and the weekly heartbeat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ml_metrics.alerts.compose import one_line, render
from ml_metrics.alerts.message import Fact, Message, Occasion, Reason

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import date, datetime


@dataclass(frozen=True, slots=True)
class Entry:
    """One message that was held back."""

    test: str
    subject: str
    reasons: tuple[str, ...]
    at: datetime
    why: str
    """Why nobody was told at once."""


@dataclass(frozen=True, slots=True)
class Silence:
    """A test that did not run as often as it should have."""

    test: str
    expected: int
    ran: int
    last_run: datetime | None


@dataclass(frozen=True, slots=True)
class OpenIncident:
    """A test that is not well."""

    test: str
    since: datetime
    reasons: tuple[str, ...]
    known_by: str = ""
    """Who said that they know; empty if nobody did."""


@dataclass(frozen=True, slots=True)
class QuietTest:
    """A test in quarantine."""

    test: str
    until: date
    reason: str


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """How the tests of a group of people stand."""

    since: datetime
    tests: int
    silent: tuple[Silence, ...] = ()
    incidents: tuple[OpenIncident, ...] = ()
    quiet: tuple[QuietTest, ...] = ()


def compose_digest(
    key: str,
    entries: Sequence[Entry],
    recipients: Sequence[str],
    sender: str,
    dashboard_url: str,
) -> Message:
    """The message about everything that was held back, by test and oldest first."""
    tests = sorted({entry.test for entry in entries})
    groups = [(test, [entry for entry in entries if entry.test == test]) for test in tests]
    number = "1 message was" if len(entries) == 1 else f"{len(entries)} messages were"
    headline = f"{number} held back, about {_tests(len(tests))}"
    words = {"headline": headline, "groups": groups, "dashboard": f"{dashboard_url}/"}
    reasons = tuple(Reason(f"digest:{entry.test}", _without_prefix(entry.subject)) for entry in entries)
    subject = f"[ML Metrics] digest: {headline}"
    return _message(key, Occasion.DIGEST, subject, words, reasons=reasons, recipients=recipients, sender=sender)


def compose_heartbeat(
    key: str, heartbeat: Heartbeat, recipients: Sequence[str], sender: str, dashboard_url: str
) -> Message:
    """The message that says which tests did not run when they should have; it comes also when all is well."""
    silent = len(heartbeat.silent)
    headline = (
        f"{silent} of {_tests(heartbeat.tests)} did not run as scheduled"
        if silent
        else f"{_tests(heartbeat.tests)} ran as scheduled"
    )
    words = {"headline": headline, "heartbeat": heartbeat, "dashboard": f"{dashboard_url}/"}
    reasons = tuple(
        Reason(f"silent:{one.test}", f"{one.test} ran {one.ran} of {one.expected} times") for one in heartbeat.silent
    )
    subject = f"[ML Metrics] weekly: {headline}"
    return _message(key, Occasion.HEARTBEAT, subject, words, reasons=reasons, recipients=recipients, sender=sender)


def _message(  # noqa: PLR0913  (what a message is made of)
    key: str,
    occasion: Occasion,
    subject: str,
    words: Mapping[str, object],
    *,
    reasons: tuple[Reason, ...],
    recipients: Sequence[str],
    sender: str,
) -> Message:
    return Message(
        key=key,
        occasion=occasion,
        test="",
        run_key="",
        owner="",
        subject=one_line(subject),
        text=render(f"{occasion}.txt", words),
        html=render(f"{occasion}.html", words),
        recipients=tuple(one_line(recipient) for recipient in recipients),
        sender=one_line(sender),
        reasons=reasons,
        links=(Fact("dashboard", "every test", str(words["dashboard"])),),
    )


def _tests(number: int) -> str:
    return "1 test" if number == 1 else f"{number} tests"


def _without_prefix(subject: str) -> str:
    return subject.removeprefix("[ML Metrics] ")
