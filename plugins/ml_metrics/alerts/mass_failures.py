"""Updates of incidents with several tests: who joined and who recovered, in one message for each list of recipients.

Held messages are what is to be reported, and the update names those that it reports: a pass that is killed at any
moment is continued by the next.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from math import ceil
from pathlib import Path

from ml_metrics.alerts.causes import MOVED
from ml_metrics.alerts.compose import compose_notice
from ml_metrics.alerts.message import Fact, MessageKind, Notice, page_of_cause, page_of_test
from ml_metrics.alerts.outbox.post import Posted, post
from ml_metrics.alerts.policy import PART_OF, PART_OF_MASS_FAILURE
from ml_metrics.alerts.problems import short_name
from ml_metrics.alerts.render import cut_name
from ml_metrics.alerts.settings import MailSettings
from ml_metrics.core.errors import FileMissingError, MlMetricsError, UnreadableInputError
from ml_metrics.core.model import Run
from ml_metrics.core.text import counted, logger_of
from ml_metrics.core.values import short_digests, short_hash
from ml_metrics.measure.efficiency import cost_words
from ml_metrics.store.documents import Documents
from ml_metrics.store.markers import file_name
from ml_metrics.warehouse import DEFINITION, Incident, StoredMessage, Warehouse

log = logger_of(__name__)

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
MAX_AGE = timedelta(days=7)
"""How long a mass failure is followed. What breaks a day after its start is no longer part of it."""
FEWEST_TESTS = 5
"""Fewer broken tests are a mass failure only if `mass_failure_tests` says so."""
MAX_NAMED = 20
PERIOD = timedelta(minutes=15)
"""The shortest time between two updates of one incident to one list of recipients."""
WINDOW, NIGHTS = timedelta(hours=2), timedelta(days=3)
"""How long after the newest member of an incident a test with the same cause joins it; and where tests moved together,
which rules find in different nights."""
CLAIM_MINUTES = 5
"""How long only its claim shows the first test with a cause, before its incident is stored."""


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
        """The tests that broke in it, also those that have recovered."""
        return [test for test, at in warehouse.incidents.opened_since(self.since).items() if at < self.until]


def newest_mass_failure(warehouse: Warehouse, now: datetime) -> MassFailure | None:
    """The mass failure that was reported last, whether or not it is over."""
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
    share = 0
    if mail.mass_failure_percent and len(opened) >= FEWEST_TESTS:
        share = max(FEWEST_TESTS, ceil(mail.mass_failure_percent * warehouse.runs.tests_since(now - DAY) / 100))
    tests = _outbreak(opened, min(filter(None, (mail.mass_failure_tests, share)), default=0))
    found = warehouse.incidents.all_open()
    members = {test: found[test] for test in tests if test in found}
    if not tests or _has_ended(members, mail):
        return None
    headline = f"{counted(len(tests), 'test')} failed within an hour: {_what(tests, members)}"
    notice = _notice(headline, tests, members, warehouse, mail)
    waits = "From now on, messages to the owners wait for the digest for an hour."
    first = f"{tests[0]} {opened[tests[0]].isoformat()}"
    key = f"mass-{mail.deployment}-{short_hash(first)}"
    return _post(key, MessageKind.MASS, replace(notice, sentences=(*notice.sentences, waits)), warehouse, mail)


def follow_mass_failure(warehouse: Warehouse, mail: MailSettings, now: datetime) -> Posted | None:
    """Write an update of a mass failure, or that it is over, at most once an hour."""
    newest = newest_mass_failure(warehouse, now)
    if newest is None or newest.is_over:
        return post_mass_failure(warehouse, mail, now)
    start, tests, found = newest.start, newest.opened(warehouse), warehouse.incidents.all_open()
    members = {test: found[test] for test in tests if test in found and found[test].opened_at < newest.until}
    state = f"{len(members):,} of {counted(len(tests), 'test')} still fail"
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


def _outbreak(opened: Mapping[str, datetime], fewest: int) -> list[str]:
    """The tests of a mass failure, the first one first: those within the hour that made it one, and later ones.

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
    return post(replace(message, incident=f"mass-failure-{mail.deployment}"), mail=mail, warehouse=warehouse)


def _what(tests: Sequence[str], members: Mapping[str, Incident]) -> str:
    """The cause of most of the tests, or else the names of the first ones."""
    (cause, number), *_ = Counter(one.cause for one in members.values() if one.cause).most_common(1) or [("", 0)]
    if number > 1:
        return f"{cause}{f' ({number} of {len(tests)})' if number < len(tests) else ''}"
    names = ", ".join(cut_name(test.removeprefix(DEFINITION), 32) for test in tests[:2])
    return f"{names} and {len(tests) - 2:,} more" if len(tests) > 2 else names


def _notice(
    headline: str, tests: Sequence[str], members: Mapping[str, Incident], warehouse: Warehouse, mail: MailSettings
) -> Notice:
    """What is known: each cause once, those with the most tests first, and what failed in the first tests."""
    counts = Counter(one.cause for one in members.values())
    causes = sorted(counts, key=lambda cause: (not cause, -counts[cause], cause))
    ranked = sorted(members, key=lambda test: (causes.index(members[test].cause), test))
    recovered = [test for test in tests if test not in members]
    named, url = [*ranked, *recovered][:MAX_NAMED], mail.dashboard_url
    shown = [members[test] for test in named if test in members]
    # a message is decided a little before its incident is opened
    since = min([one.opened_at for one in shown], default=datetime.now(UTC)) - DAY
    about = warehouse.messages.by_key([one.opened_by for one in shown], since)
    stated = dict.fromkeys(recovered, "has recovered")
    stated |= {one.test: what_failed(about.get(one.opened_by), one) for one in shown}
    sentences = []
    for cause in causes[:MAX_NAMED]:
        number = counted(counts[cause], "test")
        alone = f"No common cause is known{f' for {number}' if len(causes) > 1 else ''}."
        sentences.append(f"Cause of {number}: {cause}." if cause else alone)
    if len(causes) > MAX_NAMED:
        sentences.append(f"And {counted(len(causes) - MAX_NAMED, 'more cause')}.")
    if len(tests) > len(named):
        sentences.append(f"And {len(tests) - len(named):,} more: the dashboard lists them.")
    names = [(test, test.removeprefix(DEFINITION)) for test in named]
    return Notice(
        headline=headline,
        sentences=tuple(sentences),
        items=tuple(Fact(name, stated[test], page_of_test(url, name)) for test, name in names),
        buttons=(Fact("inbox", "Open the inbox", page_of_cause(url, "")),),
    )


def what_failed(about: StoredMessage | None, incident: Incident | None) -> str:
    """What failed in a test, as the message about it states it, and what that costs."""
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


def post_updates(warehouse: Warehouse, mail: MailSettings, now: datetime) -> list[Posted]:
    """Write the updates that are due. Messages that have no row yet have to be adopted before."""
    groups: dict[tuple[str, tuple[str, ...]], list[StoredMessage]] = defaultdict(list)
    for one in warehouse.messages.held(now - timedelta(days=2)):
        if one.held_because.startswith(PART_OF):
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
        notice = _update(cause, members, warehouse.incidents.of_cause(cause), mail.dashboard_url)
        message = compose_notice(key, MessageKind.INCIDENT, notice, recipients, mail.sender)
        posted.append(post(message, mail=mail, warehouse=warehouse, summarises=keys))
    followed = follow_mass_failure(warehouse, mail, now)
    return [*posted, *([followed] if followed else [])]


def _update(cause: str, members: Sequence[StoredMessage], broken: Sequence[Incident], dashboard_url: str) -> Notice:
    last = {one.test: one for one in sorted(members, key=lambda one: (one.timestamp, one.message))}
    better = [test for test, one in last.items() if one.occasion == MessageKind.RECOVERED]
    worse = [test for test in last if test not in better]
    still, incidents = len(broken), {one.test: one for one in broken}
    numbers = ((len(worse), "failed"), (len(better), "recovered"))
    changed = " and ".join(f"{counted(number, 'test')} {what}" for number, what in numbers if number)
    state = f"{still} in all still fail for this cause" if still else "all tests with this cause have recovered"
    stated = {test: what_failed(last[test], incidents.get(test)) for test in worse} | dict.fromkeys(better, "recovered")
    return Notice(
        headline=f"{changed}{'' if still else ', and so have all'}: {short_digests(cause)}",
        sentences=(
            f"Cause: {short_digests(cause)}.",
            f"This is one incident: {state}. Each test keeps its own state, and is acknowledged by itself.",
        ),
        items=tuple(Fact(test, text, page_of_test(dashboard_url, test)) for test, text in stated.items()),
        buttons=(Fact("inbox", "Open the incident", page_of_cause(dashboard_url, cause)),),
    )


def reason_to_hold(
    run: Run,
    kind: MessageKind,
    cause: str,
    incident: Incident | None,
    warehouse: Warehouse,
    mail: MailSettings,
    now: datetime,
) -> str:
    """Why a message waits for one about several tests; empty if it does not."""
    if _is_one_of_many(run.test, warehouse, now):
        return PART_OF_MASS_FAILURE
    if kind is MessageKind.RECOVERED and incident is not None and incident.cause:
        since = (incident.caused_at or incident.opened_at) - WINDOW
        shared = warehouse.incidents.tests_of_cause(incident.cause, since) - {incident.test}
        return f"{PART_OF}{incident.cause}" if shared else ""
    if kind is MessageKind.RECOVERED or not cause or (incident is not None and cause == incident.cause):
        return ""
    # of several tests at the same moment, one is the first
    members = [one for one in warehouse.incidents.of_cause(cause) if one.test != run.test]
    window = NIGHTS if cause.startswith(MOVED) else WINDOW
    is_known = bool(members) and members[0].caused_at is not None and members[0].caused_at > now - window
    try:
        return f"{PART_OF}{cause}" if is_known or not _claim(cause, run.test, mail, now) else ""
    except MlMetricsError as error:
        log.warning("whether another test has this cause is unknown: %s", error)
        return ""


def _is_one_of_many(test: str, warehouse: Warehouse, now: datetime) -> bool:
    """Whether many tests of the same folder broke in a mass failure that is new.

    One team's failures do not delay messages about another's.
    """
    mass = newest_mass_failure(warehouse, now)
    if mass is None or not mass.is_running(now) or mass.start.timestamp <= now - HOUR:
        return False
    files = {name: Path(one.file).parent for name, one in warehouse.known_tests.read().tests.items()}
    own, broken = files.get(test), {test, *mass.opened(warehouse)}
    return own is None or sum(files.get(one) == own for one in broken) >= FEWEST_TESTS


def _claim(cause: str, test: str, mail: MailSettings, now: datetime) -> bool:
    """Claim to be the first test with a cause in these minutes. False if another test is."""
    period = int(now.timestamp() // (60 * CLAIM_MINUTES))
    claims = Documents.of_deployment(mail.storage_root, "causes", file_name(mail.deployment))
    name, mine = (f"{short_hash(cause)}-{number}" for number in (period - 1, period))
    if not claims.exists(name):
        if claims.create(mine, {"test": test, "at": now.astimezone(UTC).isoformat()}):
            return True
        name = mine
    try:
        return bool(claims.read(name).get("test") == test)
    except (FileMissingError, UnreadableInputError):
        return True  # a claim that cannot be read delays no message
