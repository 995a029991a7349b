"""Updates of incidents with several tests: who joined and who recovered, in one message for each list of recipients.

Held messages are what is to be reported, and the update names those that it reports: a pass that is killed at any
moment is continued by the next.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import timedelta
from typing import TYPE_CHECKING

from ml_metrics.alerts.compose import compose_notice
from ml_metrics.alerts.message import Fact, MessageKind, Notice
from ml_metrics.alerts.pages import page_of_cause, page_of_test
from ml_metrics.alerts.policy import PART_OF
from ml_metrics.alerts.week import number_of_tests
from ml_metrics.notify.mass_failure import follow_mass_failure, what_failed
from ml_metrics.notify.outgoing import post
from ml_metrics.values import short_hash

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from ml_metrics.notify.mail_settings import MailSettings
    from ml_metrics.notify.outgoing import Posted
    from ml_metrics.warehouse import Incident, StoredMessage, Warehouse

PERIOD = timedelta(minutes=15)
"""The shortest time between two updates of one incident to one list of recipients."""
MAX_AGE = timedelta(days=2)


def post_updates(warehouse: Warehouse, mail: MailSettings, now: datetime) -> list[Posted]:
    """Write the updates that are due. Messages that have no row yet have to be adopted before."""
    held = [one for one in warehouse.messages.held(now - MAX_AGE) if one.held_because.startswith(PART_OF)]
    groups: dict[tuple[str, tuple[str, ...]], list[StoredMessage]] = defaultdict(list)
    for one in held:
        groups[one.held_because.removeprefix(PART_OF), one.recipients].append(one)
    newest = warehouse.messages.of_occasion(MessageKind.INCIDENT, now - PERIOD) if groups else []
    posted = []
    for (cause, recipients), members in groups.items():
        group = "\n".join((mail.deployment, cause, *recipients))
        prefix = f"incident-{short_hash(group)}-"
        if any(one.message.startswith(prefix) for one in newest):
            continue
        # two senders may see different messages at the same moment, but the same first one: one creates the document
        key = f"{prefix}{short_hash(members[0].message)}"
        keys = tuple(one.message for one in members)
        notice = _notice(cause, members, warehouse.incidents.of_cause(cause), mail.dashboard_url)
        message = compose_notice(key, MessageKind.INCIDENT, notice, recipients, mail.sender)
        posted.append(post(message, mail=mail, warehouse=warehouse, summarises=keys))
    followed = follow_mass_failure(warehouse, mail, now)
    return [*posted, *([followed] if followed else [])]


def _notice(cause: str, members: Sequence[StoredMessage], broken: Sequence[Incident], dashboard_url: str) -> Notice:
    """Return what an update states: the last change of each test."""
    last = {one.test: one for one in sorted(members, key=lambda one: (one.timestamp, one.message))}
    better = [one for one in last.values() if one.occasion == MessageKind.RECOVERED]
    worse = [one for one in last.values() if one.occasion != MessageKind.RECOVERED]
    still, incidents = len(broken), {one.test: one for one in broken}
    parts = [f"{number_of_tests(len(worse))} failed"] if worse else []
    parts += [f"{number_of_tests(len(better))} recovered"] if better else []
    state = f"{still} in all still fail for this cause" if still else "all tests with this cause have recovered"
    return Notice(
        headline=f"{' and '.join(parts)}{'' if still else ', and so have all'}: {cause}",
        sentences=(
            f"Cause: {cause}.",
            f"This is one incident: {state}. Each test keeps its own state, and is acknowledged by itself.",
        ),
        items=tuple(_row(one, incidents.get(one.test), dashboard_url) for one in (*worse, *better)),
        buttons=(Fact("inbox", "Open the incident", page_of_cause(dashboard_url, cause)),),
    )


def _row(one: StoredMessage, incident: Incident | None, dashboard_url: str) -> Fact:
    stated = "recovered" if one.occasion == MessageKind.RECOVERED else what_failed(one, incident)
    return Fact(one.test, stated, page_of_test(dashboard_url, one.test))
