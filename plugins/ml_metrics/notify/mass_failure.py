"""Mass failures: many tests break within an hour. One message goes to the duty address at once.

A gate writes its incident before it counts, so of several gates at the same moment the last one counts them all.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from ml_metrics.alerts.compose import compose_notice
from ml_metrics.alerts.mail import file_name
from ml_metrics.alerts.message import Fact, MessageKind, Notice
from ml_metrics.alerts.pages import page_of_cause, page_of_test
from ml_metrics.efficiency.cost_regression import cost_words
from ml_metrics.errors import FileMissingError, UnreadableInputError
from ml_metrics.notify.outgoing import post
from ml_metrics.notify.together import FEWEST_TESTS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from ml_metrics.notify.mail_settings import MailSettings
    from ml_metrics.notify.outgoing import Posted
    from ml_metrics.warehouse import Incident, StoredMessage, Warehouse

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
MAX_NAMED = 20
UNKNOWN = "no common cause is known"


def post_mass_failure(warehouse: Warehouse, mail: MailSettings, now: datetime) -> Posted | None:
    """Write the message about a mass failure, if there is one that was not reported."""
    broken = warehouse.incidents.opened_since(now - HOUR)
    if not _is_mass(len(broken), warehouse, mail, now) or _running(warehouse, now) is not None:
        return None
    if _of_hour_before(mail, now):
        return None
    found = warehouse.incidents.all_open()
    members = {test: found[test] for test in broken if test in found}
    notice = _notice(f"{len(broken):,} tests failed within an hour", members, mail)
    return _post(_key(mail, now), MessageKind.MASS, notice, warehouse, mail)


def follow_mass_failure(warehouse: Warehouse, mail: MailSettings, now: datetime) -> Posted | None:
    """Write an update of a mass failure, or that it is over, at most once an hour."""
    start = _running(warehouse, now)
    if start is None:
        return post_mass_failure(warehouse, mail, now)
    found, tests = warehouse.incidents.all_open(), warehouse.incidents.opened_since(start.timestamp - HOUR)
    members = {test: found[test] for test in tests if test in found}
    if len(members) < min(FEWEST_TESTS, len(tests)):
        notice = _notice(f"the mass failure is over: {len(members)} of {len(tests):,} tests still fail", members, mail)
        return _post(f"{start.message}-over", MessageKind.RECOVERED, notice, warehouse, mail)
    earlier = [
        one for one in warehouse.messages.of_occasion(MessageKind.INCIDENT, start.timestamp) if _is_of(one, start)
    ]
    last = max((start, *earlier), key=lambda one: one.timestamp)
    notice = _notice(f"mass failure: {len(members):,} of {len(tests):,} tests still fail", members, mail)
    if now - last.timestamp < HOUR or last.subject.endswith(notice.headline):
        return None
    return _post(f"{start.message}-update-{now:%Y%m%d%H}", MessageKind.INCIDENT, notice, warehouse, mail)


def _is_mass(broken: int, warehouse: Warehouse, mail: MailSettings, now: datetime) -> bool:
    number, percent = mail.mass_failure_tests, mail.mass_failure_percent
    if number and broken >= number:
        return True
    if not percent or broken < FEWEST_TESTS:
        return False
    return broken * 100 >= percent * max(broken, warehouse.runs.tests_since(now - DAY))


def _running(warehouse: Warehouse, now: datetime) -> StoredMessage | None:
    """Return the message about a mass failure that is not over."""
    start = next(iter(warehouse.messages.of_occasion(MessageKind.MASS, now - DAY)), None)
    return None if start is None or warehouse.messages.existing([f"{start.message}-over"]) else start


def _of_hour_before(mail: MailSettings, now: datetime) -> bool:
    """Whether a message was written less than an hour ago, before the full hour, and may have no row yet."""
    name = file_name(_key(mail, now - HOUR))
    try:
        written = mail.message_folder.read(name).decided_at
    except (FileMissingError, UnreadableInputError):
        return False
    return now - written < HOUR and not mail.message_folder.exists(f"{name}-over")


def _is_of(one: StoredMessage, start: StoredMessage) -> bool:
    return one.message.startswith(f"{start.message}-update-")


def _key(mail: MailSettings, now: datetime) -> str:
    return f"mass-{mail.deployment}-{now:%Y%m%d%H}"


def _post(key: str, kind: MessageKind, notice: Notice, warehouse: Warehouse, mail: MailSettings) -> Posted:
    message = compose_notice(key, kind, notice, mail.duty or mail.recipients, mail.sender)
    message = replace(message, incident=f"mass-failure-{mail.deployment}")
    return post(message, mail=mail, warehouse=warehouse)


def _notice(headline: str, members: Mapping[str, Incident], mail: MailSettings) -> Notice:
    """Return what is known: the causes with the most tests first, and the names of the first tests."""
    counts = Counter(one.cause or UNKNOWN for one in members.values())
    causes = sorted(counts, key=lambda cause: (cause == UNKNOWN, -counts[cause], cause))
    ranked = sorted(members.values(), key=lambda one: (causes.index(one.cause or UNKNOWN), one.test))
    url = mail.dashboard_url
    texts = ("; ".join(filter(None, (one.cause or UNKNOWN, cost_words(one.cost)))) for one in ranked[:MAX_NAMED])
    rows = [Fact(one.test, text, page_of_test(url, one.test)) for one, text in zip(ranked, texts, strict=False)]
    more = len(ranked) - len(rows)
    listed = "; ".join(f"{counts[cause]} x {cause}" for cause in causes[:MAX_NAMED])
    return Notice(
        headline=headline,
        sentences=(
            *((f"Causes: {listed}.",) if listed else ()),
            *((f"{more:,} more tests are on the dashboard.",) if more > 0 else ()),
            "Messages to the owners wait for the digest for an hour from the first message.",
        ),
        items=tuple(rows),
        buttons=(Fact("inbox", "Open the inbox", page_of_cause(url, "")),),
    )
