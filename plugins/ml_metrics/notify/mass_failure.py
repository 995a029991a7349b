"""Mass failures: many tests break within an hour. One message goes to the duty address at once.

A gate writes its incident before it counts, so of several gates at the same moment the last one counts them all. Each
incident belongs to one mass failure at most: what breaks after its end is counted anew.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from math import ceil
from typing import TYPE_CHECKING

from ml_metrics.alerts.compose import compose_notice
from ml_metrics.alerts.message import Fact, MessageKind, Notice
from ml_metrics.alerts.pages import page_of_cause, page_of_test
from ml_metrics.alerts.week import number_of_tests
from ml_metrics.efficiency.cost_regression import cost_words
from ml_metrics.notify.outgoing import post
from ml_metrics.reports import short_name
from ml_metrics.values import short_hash
from ml_metrics.warehouse.known_tests import DEFINITION

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ml_metrics.notify.mail_settings import MailSettings
    from ml_metrics.notify.outgoing import Posted
    from ml_metrics.warehouse import Incident, StoredMessage, Warehouse

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
MAX_AGE = timedelta(days=7)
"""How long a mass failure is followed. What breaks a day after its start is no longer part of it."""
FEWEST_TESTS = 5
"""Fewer broken tests are a mass failure only if `mass_failure_tests` says so."""
MAX_NAMED = 20
OWNERS_WAIT = "From now on, messages to the owners wait for the digest for an hour."


@dataclass(frozen=True, slots=True)
class MassFailure:
    """A mass failure that was reported."""

    start: StoredMessage
    since: datetime
    """Its incidents were opened after this time,"""
    until: datetime
    """and before this one."""
    is_over: bool

    def is_running(self, now: datetime) -> bool:
        """Whether incidents that are opened now belong to it."""
        return now < self.until and not self.is_over

    def opened(self, warehouse: Warehouse) -> list[str]:
        """Return the tests that broke in it, also those that have recovered."""
        return [test for test, at in warehouse.incidents.opened_since(self.since).items() if at < self.until]

    def broken(self, warehouse: Warehouse, tests: Sequence[str]) -> dict[str, Incident]:
        """Return the open incidents of some tests that broke in it."""
        found = warehouse.incidents.all_open()
        return {test: found[test] for test in tests if test in found and found[test].opened_at < self.until}


def newest_mass_failure(warehouse: Warehouse, now: datetime) -> MassFailure | None:
    """Return the mass failure that was reported last, whether or not it is over."""
    starts = warehouse.messages.of_occasion(MessageKind.MASS, now - MAX_AGE)[:2]
    ends = warehouse.messages.by_key([_end_of(one) for one in starts], now - MAX_AGE)
    found = None
    for start in reversed(starts):
        end = ends.get(_end_of(start))
        since = max(start.timestamp - HOUR, found.until) if found else start.timestamp - HOUR
        found = MassFailure(start, since, end.timestamp if end else start.timestamp + DAY, end is not None)
    return found


def post_mass_failure(warehouse: Warehouse, mail: MailSettings, now: datetime) -> Posted | None:
    """Write the message about a mass failure, if there is one that was not reported."""
    newest = newest_mass_failure(warehouse, now)
    if newest is not None and newest.is_running(now):
        return None
    # the first test is the same for all that look within an hour of the last one
    earliest = now - 2 * HOUR
    opened = warehouse.incidents.opened_since(max(earliest, newest.until) if newest else earliest)
    tests = _outbreak(opened, _fewest(len(opened), warehouse, mail, now))
    found = warehouse.incidents.all_open()
    members = {test: found[test] for test in tests if test in found}
    if not tests or _has_ended(members, mail):
        return None
    notice = _notice(f"{number_of_tests(len(tests))} failed within an hour", tests, members, warehouse, mail)
    notice = replace(notice, sentences=(*notice.sentences, OWNERS_WAIT))
    first = f"{tests[0]} {opened[tests[0]].isoformat()}"
    return _post(f"mass-{mail.deployment}-{short_hash(first)}", MessageKind.MASS, notice, warehouse, mail)


def follow_mass_failure(warehouse: Warehouse, mail: MailSettings, now: datetime) -> Posted | None:
    """Write an update of a mass failure, or that it is over, at most once an hour."""
    newest = newest_mass_failure(warehouse, now)
    if newest is None or newest.is_over:
        return post_mass_failure(warehouse, mail, now)
    start, tests = newest.start, newest.opened(warehouse)
    members = newest.broken(warehouse, tests)
    state = f"{len(members):,} of {number_of_tests(len(tests))} still fail"
    if _has_ended(members, mail):
        notice = _notice(f"the mass failure is over: {state}", tuple(members), members, warehouse, mail)
        return _post(_end_of(start), MessageKind.RECOVERED, notice, warehouse, mail)
    if not newest.is_running(now):
        return post_mass_failure(warehouse, mail, now)
    updates = warehouse.messages.of_occasion(MessageKind.INCIDENT, start.timestamp)
    earlier = [one for one in updates if one.message.startswith(f"{start.message}-update-")]
    last = max((start, *earlier), key=lambda one: one.timestamp)
    headline = f"mass failure: {state}"
    if now - last.timestamp < HOUR or last.subject.endswith(headline):
        return None
    notice = _notice(headline, tuple(members), members, warehouse, mail)
    key = f"{start.message}-update-{len(earlier) + 1}"
    return _post(key, MessageKind.INCIDENT, notice, warehouse, mail)


def _fewest(broken: int, warehouse: Warehouse, mail: MailSettings, now: datetime) -> int:
    """Return how many tests that break within an hour are a mass failure; 0 if no number of them is."""
    share = 0
    if mail.mass_failure_percent and broken >= FEWEST_TESTS:
        share = max(FEWEST_TESTS, ceil(mail.mass_failure_percent * warehouse.runs.tests_since(now - DAY) / 100))
    return min(filter(None, (mail.mass_failure_tests, share)), default=0)


def _outbreak(opened: Mapping[str, datetime], fewest: int) -> list[str]:
    """Return the tests of a mass failure, the first one first: those within the hour that made it one, and later ones.

    Whenever this is asked, the first one is the same.
    """
    ordered, first = sorted(opened, key=lambda test: (opened[test], test)), 0
    for number, test in enumerate(ordered, 1):
        while opened[test] - opened[ordered[first]] >= HOUR:
            first += 1
        if 0 < fewest <= number - first:
            return ordered[first:]
    return []


def _has_ended(members: Mapping[str, Incident], mail: MailSettings) -> bool:
    return len(members) < min(FEWEST_TESTS, mail.mass_failure_tests or FEWEST_TESTS)


def _end_of(start: StoredMessage) -> str:
    return f"{start.message}-over"


def _post(key: str, kind: MessageKind, notice: Notice, warehouse: Warehouse, mail: MailSettings) -> Posted:
    message = compose_notice(key, kind, notice, mail.duty or mail.recipients, mail.sender)
    message = replace(message, incident=f"mass-failure-{mail.deployment}")
    return post(message, mail=mail, warehouse=warehouse)


def _notice(
    headline: str, tests: Sequence[str], members: Mapping[str, Incident], warehouse: Warehouse, mail: MailSettings
) -> Notice:
    """Return what is known: each cause once, those with the most tests first, and what failed in the first tests."""
    counts = Counter(one.cause for one in members.values())
    causes = sorted(counts, key=lambda cause: (not cause, -counts[cause], cause))
    ranked = sorted(members, key=lambda test: (causes.index(members[test].cause), test))
    recovered = [test for test in tests if test not in members]
    named, url = [*ranked, *recovered][:MAX_NAMED], mail.dashboard_url
    shown = [members[test] for test in named if test in members]
    # a message is decided a little before its incident is opened
    since = min([one.opened_at for one in shown], default=datetime.now(UTC)) - DAY
    about = warehouse.messages.by_key([one.opened_by for one in shown], since)
    stated = {one.test: what_failed(about.get(one.opened_by), one) for one in shown}
    stated |= dict.fromkeys(recovered, "has recovered")
    more = len(tests) - len(named)
    return Notice(
        headline=headline,
        sentences=(
            *(_cause_of(cause, counts[cause], is_alone=len(causes) == 1) for cause in causes[:MAX_NAMED]),
            *((f"And {len(causes) - MAX_NAMED:,} more causes.",) if len(causes) > MAX_NAMED else ()),
            *((f"And {more:,} more: the dashboard lists them.",) if more > 0 else ()),
        ),
        items=tuple(_row(test.removeprefix(DEFINITION), stated[test], url) for test in named),
        buttons=(Fact("inbox", "Open the inbox", page_of_cause(url, "")),),
    )


def _row(test: str, stated: str, dashboard_url: str) -> Fact:
    return Fact(test, stated, page_of_test(dashboard_url, test))


def _cause_of(cause: str, tests: int, *, is_alone: bool) -> str:
    if cause:
        return f"Cause of {number_of_tests(tests)}: {cause}."
    return f"No common cause is known{'' if is_alone else f' for {number_of_tests(tests)}'}."


def what_failed(about: StoredMessage | None, incident: Incident | None) -> str:
    """Return what failed in a test, as the message about it states it, and what that costs."""
    # one message may be about the files of several tests
    is_own = about is not None and (incident is None or about.test == incident.test)
    reasons = about.reasons if about is not None and is_own else ()
    if not reasons:
        names = [short_name(one) for one in (incident.reasons if incident is not None else ())]
        reasons = ("; ".join(names) or "failed",)
    cost = cost_words(incident.cost) if incident is not None else ""
    more = sum(not one.startswith("Warning: ") for one in reasons[1:])
    first = f"{reasons[0]}{f' (+{more:,} more)' if more else ''}"
    # what a sentence about one metric states already is not repeated
    return first if "That costs" in first else "; ".join(filter(None, (first, cost)))
