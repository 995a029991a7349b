"""One pass of a sender: it sends every message that is due, each under a lease that no other sender can have.

A pass may be killed at any moment: what it sent is recorded beside the message at once, and a lease ends by itself.
"""

from __future__ import annotations

import json
import time
import uuid
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from html import escape
from threading import Condition, Lock, Thread

from ml_metrics.alerts.channels.channel import Channel
from ml_metrics.alerts.compose import SUBJECT_PREFIX, compose_notice
from ml_metrics.alerts.mass_failures import post_updates
from ml_metrics.alerts.message import Message, MessageKind, Notice, Reason
from ml_metrics.alerts.outbox.adopt import adopt
from ml_metrics.alerts.outbox.attempt import (
    DAY,
    GIVEN_UP_AFTER,
    MAX_LONG_PAUSE,
    DeliveryResult,
    Outcome,
    SentRecord,
    attempt,
    has_arrived,
    is_due,
    outcome_of,
    pause_after,
)
from ml_metrics.alerts.outbox.documents import MessageFolder, from_document
from ml_metrics.alerts.outbox.post import addressed, hurry
from ml_metrics.alerts.policy import FOR_RECIPIENTS, channels_for, is_per_test
from ml_metrics.alerts.settings import MailSettings
from ml_metrics.core.errors import (
    FailureLogged,
    FileMissingError,
    MlMetricsError,
    StorageError,
    UndeliveredError,
    UnreadableInputError,
    WarehouseError,
)
from ml_metrics.core.model import Run
from ml_metrics.core.text import logger_of
from ml_metrics.store.documents import SUFFIX
from ml_metrics.warehouse import (
    HOLD_OFF,
    SILENT_AFTER,
    ChannelResult,
    ChannelState,
    MessageState,
    SenderPass,
    StoredMessage,
    Warehouse,
)

log = logger_of(__name__)

COMMAND_LINE = "command line"
"""The sender that is no DAG and no run."""
PASS_SECONDS = 200.0
"""The time for a pass of the DAG: less than its period of five minutes."""
CHANNEL_SECONDS = 10.0
"""The time for one message on all its channels."""
MARGIN_SECONDS = 1.0
LATEST_START_SECONDS = 30.0
"""A message whose lease is older is not sent any more, but left for the next pass: the lease is far from its end."""
THREADS = 4
MAX_MESSAGES = 10_000
IN_ORDER_ATTEMPTS = 3
"""After this many tries, later messages of the same test no longer wait for a message."""
MAX_FAILURES = 3
"""A channel that worked in this pass is down after this many failures in a row, any other after one."""
LATE = timedelta(hours=1)
"""A younger message is sent as it was decided."""
FEWEST = 3
"""Fewer messages of more than a day to the same recipients are sent one by one."""


def send_pending(
    warehouse: Warehouse,
    mail: MailSettings,
    *,
    sender: str = "ml_messages",
    seconds: float = PASS_SECONDS,
    wait: Callable[[float], None] | None = None,
    has_ended: Callable[[Run], bool | None] = lambda _: None,
    without_pauses: bool = False,
) -> SenderPass:
    """Send what is due, and record the pass under the name `sender`. Two passes at once send nothing twice.

    `wait` waits for messages that are new, or whose sender vanished, and that are free within the pass; None leaves
    them to the next. `has_ended` asks Airflow whether a run has ended; None if that is unknown. `without_pauses` also
    tries what an earlier attempt left for later: its user may just have corrected a connection.
    """
    ends = time.monotonic() + seconds
    ahead = MAX_LONG_PAUSE if without_pauses else timedelta(0)
    one_pass = _Pass(warehouse, mail, ends, f"{sender} {uuid.uuid4().hex[:12]}", ahead)
    one_pass.prepare(has_ended)
    one_pass.send_due()
    pause = HOLD_OFF.total_seconds() + 1
    if wait and one_pass.has_more_soon() and time.monotonic() + pause + CHANNEL_SECONDS < ends:
        wait(pause)
        one_pass.send_due()
    return one_pass.record(sender)


def send_if_no_sender_runs(warehouse: Warehouse, mail: MailSettings, seconds: float) -> SenderPass | None:
    """Send what is due if no sender has run lately: the next run of any test then acts as one."""
    now = warehouse.messages.moment()
    newest = warehouse.senders.state(now).last_pass
    if newest is not None and newest > now - SILENT_AFTER:
        return None
    return send_pending(warehouse, mail, sender="run", seconds=seconds)


class WorkingChannels:
    """The state of every channel in one pass."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._works: dict[str, bool | None] = {}
        """None while a message tries the channel for the first time."""
        self._failures: Counter[str] = Counter()

    @property
    def down(self) -> list[str]:
        with self._changed:
            return sorted(name for name, works in self._works.items() if works is False)

    def all_work(self, names: Iterable[str]) -> bool:
        with self._changed:
            return all(self._works.get(name) for name in names)

    def claim(self, names: Iterable[str], seconds: float) -> set[str]:
        """Which of some channels to use, as soon as no other message is the first to try one of them.

        All of them are claimed at once: two messages that each held one and waited for the other would never end.
        Every claimed channel must be released. Returns no channel if that takes longer than `seconds`.
        """
        wanted = set(names)
        with self._changed:
            if not self._changed.wait_for(lambda: not any(map(self._is_tried, wanted)), max(0.0, seconds)):
                return set()
            claimed = {name for name in wanted if self._works.get(name) is not False}
            for name in claimed:
                self._works.setdefault(name, None)
            return claimed

    def release(self, name: str, *, works: bool | None) -> None:
        """Record whether a claimed channel works; None if it was not used."""
        with self._changed:
            if works is not None:
                self._failures[name] = 0 if works else self._failures[name] + 1
                self._works[name] = works or (bool(self._works.get(name)) and self._failures[name] < MAX_FAILURES)
            elif self._is_tried(name):
                del self._works[name]
            self._changed.notify_all()

    def _is_tried(self, name: str) -> bool:
        return self._works.get(name, True) is None


@dataclass(slots=True)
class _Pass:
    warehouse: Warehouse
    mail: MailSettings
    ends: float
    lease: str
    ahead: timedelta
    """How far ahead a next attempt counts as due."""
    channels: WorkingChannels = field(default_factory=WorkingChannels)
    sent: int = 0
    revoked: int = 0
    problems: list[str] = field(default_factory=list)
    _groups: deque[list[StoredMessage]] = field(default_factory=deque)
    _tried: set[str] = field(default_factory=set)
    _late: set[str] = field(default_factory=set)
    _lock: Lock = field(default_factory=Lock)

    @property
    def left(self) -> float:
        return self.ends - time.monotonic()

    def prepare(self, has_ended: Callable[[Run], bool | None]) -> None:
        """Add the rows of messages that were written while the warehouse was down, and updates of incidents."""
        try:
            for problem in adopt(self.mail, self.warehouse, has_ended, lambda: self.left > MARGIN_SECONDS):
                self._report(problem)
        except MlMetricsError as error:
            self._report(f"messages without a row may be left in their folders: {error}")
        with FailureLogged(self._report_bug, "an incident with several tests has no update"):
            for posted in post_updates(self.warehouse, self.mail, datetime.now(UTC)):
                if self.left > PASS_SECONDS / 2:
                    hurry(posted, self.mail, self.warehouse)

    def send_due(self) -> None:
        now, began = self.warehouse.messages.moment(), time.monotonic()
        found = self.warehouse.messages.due(now + self.ahead, MAX_MESSAGES)
        due = [one for one in found if not _may_be_sent_now(one, now)]
        self.revoked = sum(self.warehouse.messages.revoke(one, now) for one in due if one.lease)
        self._groups, self._late = deque(in_order(due)), for_digest(due, now)

        def work() -> None:
            while self.left > MARGIN_SECONDS:
                try:
                    group = self._groups.popleft()
                except IndexError:
                    return
                for row in group:
                    with FailureLogged(self._report_bug, row.subject):
                        if not self._send_one(row, now + timedelta(seconds=time.monotonic() - began)):
                            break

        threads = [Thread(target=work, daemon=True) for _ in range(min(THREADS, len(self._groups)))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(max(0.0, self.left) + MARGIN_SECONDS)
        if self._groups:
            self._report(f"no time was left for {sum(map(len, self._groups))} messages")
        if any(thread.is_alive() for thread in threads):
            self._report("a message was still being sent when the time was over")

    def has_more_soon(self) -> bool:
        """Whether messages are free within a minute: their sender vanished, or no sender has tried them yet."""
        soon = self.warehouse.messages.due(self.warehouse.messages.moment() + HOLD_OFF, MAX_MESSAGES)
        return bool(self.revoked) or any(
            row.attempts <= 1 and not row.lease and row.message not in self._tried for row in soon
        )

    def record(self, sender: str) -> SenderPass:
        moment = self.warehouse.messages.moment()
        for name in self.channels.down:
            self._report(f"{name} is down")
        pending = self.warehouse.senders.state(moment).pending
        done = SenderPass(sender, moment, self.sent, pending, "; ".join(self.problems))
        self.warehouse.senders.record(done)
        return done

    def _send_one(self, row: StoredMessage, now: datetime) -> bool:
        """Send one message. False if later messages of its test should wait for it."""
        wanted = {one.name: one for one in open_channels(row, self.mail, now + self.ahead)}
        names = self.channels.claim(wanted, self.left)
        unused = set(names)
        try:
            if row.lease or (wanted and not names and now - row.timestamp < GIVEN_UP_AFTER):
                return False  # its channels are down: this is no attempt
            if row.message in self._late and self._leave_to_digest(row, wanted.values()):
                return True
            state = self._take_and_send(row, [wanted[name] for name in wanted if name in names], now, unused)
        except WarehouseError as error:
            self._groups.clear()
            self._report(f"the warehouse failed: {error}")
            return False
        finally:
            for name in unused:
                self.channels.release(name, works=None)
        with self._lock:
            self.sent += state is MessageState.SENT
        return state is not MessageState.PENDING or row.attempts >= IN_ORDER_ATTEMPTS

    def _take_and_send(
        self, row: StoredMessage, channels: list[Channel], now: datetime, unused: set[str]
    ) -> MessageState:
        taken = time.monotonic()
        self._tried.add(row.message)
        if not self.warehouse.messages.take(row, self.lease, now):
            return MessageState.PENDING
        try:
            message, record = read_message(row)
        except StorageError as error:
            self._report(f"{row.subject}: {error}")
            pause = pause_after(row.attempts, transient=True, age=now - row.timestamp)
            return self._finish(row, Outcome(MessageState.PENDING, row.channels, now + pause))
        results: list[DeliveryResult] = []
        if time.monotonic() - taken < LATEST_START_SECONDS:
            message = dated(addressed(message, self.mail), row, self.warehouse, now)
            results = attempt(message, channels, max(MARGIN_SECONDS, min(CHANNEL_SECONDS, self.left)), record)
        for one in results:
            self.channels.release(one.channel, works=one.accepted or not one.temporary)
            unused.discard(one.channel)
        outcome = outcome_of(row, channels_of(row, self.mail), record, results, now)
        if outcome.state is MessageState.DEAD:
            bury(row, message, outcome.channels, self.mail)
        return self._finish(row, outcome)

    def _leave_to_digest(self, row: StoredMessage, wanted: Iterable[Channel]) -> bool:
        """Let the next digest report a message that is more than a day late, if its channels work again."""

        def for_people(channels: Iterable[Channel]) -> set[str]:
            return {one.name for one in channels if not is_per_test(one)} - {"outbox"}

        left = for_people(wanted)
        reached_nobody = bool(left) and left == for_people(channels_of(row, self.mail))
        why = "no channel for its recipients accepted it for a day"
        return reached_nobody and self.channels.all_work(left) and self.warehouse.messages.hold(row, why)

    def _finish(self, row: StoredMessage, outcome: Outcome) -> MessageState:
        if self.warehouse.messages.finish(
            row.message, self.lease, outcome.state, outcome.channels, outcome.next_attempt
        ):
            return outcome.state
        self._report(f"{row.subject}: another sender has taken it over")
        return MessageState.PENDING

    def _report_bug(self, problem: str) -> None:
        self._report(problem, log.exception)

    def _report(self, problem: str, tell: Callable[..., object] = log.warning) -> None:
        tell("%s", problem)
        with self._lock:
            self.problems.append(problem)


def channels_of(stored: StoredMessage, mail: MailSettings) -> list[Channel]:
    """The channels that a message is sent on, whether or not they have accepted it."""
    return channels_for(mail.channels, _kind(stored), stored.held_because)


def open_channels(stored: StoredMessage, mail: MailSettings, now: datetime) -> list[Channel]:
    """The channels that have not accepted a message and may be tried now, as far as its row knows."""
    return [
        one
        for one in channels_of(stored, mail)
        if not has_arrived(stored.channels, one) and is_due(stored.channels.get(one.name), now)
    ]


def read_message(stored: StoredMessage) -> tuple[Message, SentRecord]:
    """A gone or damaged document is composed again from its row. StorageError: its folder cannot be read now."""
    path, _, name = stored.document.rpartition("/")
    folder, name = (MessageFolder(path) if path else None), name.removesuffix(SUFFIX)
    try:
        if folder is not None:
            message = folder.read(name).message
        else:
            message = from_document(json.loads(stored.content), f"the row of {stored.message}").message
    except (FileMissingError, UnreadableInputError, ValueError, AttributeError) as error:
        log.warning("%s: the message is composed from its row: %s", stored.subject, error)
        notice = Notice(
            headline=stored.subject.removeprefix(SUBJECT_PREFIX),
            sentences=stored.reasons,
            test=stored.test,
            run_key=stored.run_key,
            owner=stored.owner,
        )
        message = compose_notice(stored.message, _kind(stored), notice, stored.recipients)
    try:
        return message, SentRecord(folder, name, folder.sent(name) if folder else {})
    except UnreadableInputError as error:
        log.warning("%s: its earlier deliveries are unknown: %s", stored.subject, error)
        return message, SentRecord(folder, name)


def _kind(stored: StoredMessage) -> MessageKind:
    try:
        return MessageKind(stored.occasion)
    except ValueError:  # of a newer version
        return MessageKind.BROKEN


def bury(stored: StoredMessage, message: Message, channels: Mapping[str, ChannelResult], mail: MailSettings) -> None:
    """Save a message that some channels have not accepted in time in the outbox folder, and log an error."""
    try:
        place = f"saved as {mail.outbox.send(message, 10)}"
    except UndeliveredError as error:
        place = f"it could not be saved either ({error}); its text is:\n{message.text}"
    dead = "; ".join(
        f"{name}: {one.detail}" for name, one in sorted(channels.items()) if one.state == ChannelState.DEAD
    )
    log.error("%s: could not be sent for %s days: %s; %s", stored.subject, GIVEN_UP_AFTER.days, dead, place)


def dated(message: Message, row: StoredMessage, warehouse: Warehouse, now: datetime) -> Message:
    if now - row.timestamp < LATE or message.kind is MessageKind.RESULT:
        return message
    try:
        since = _since_then(message.kind, row, warehouse)
    except MlMetricsError as error:
        log.warning("%s: whether its test has recovered is unknown: %s", row.subject, error)
        since = ""
    note = " ".join(filter(None, (f"This message is late: it is of {_minute(row.timestamp)}.", since)))
    return replace(
        message,
        subject=f"{message.subject} (of {_minute(row.timestamp)})",
        text=f"{note}\n\n{message.text}",
        html=message.html.replace("<main>\n", f'<main>\n<p class="first">{escape(note)}</p>\n', 1),
        warnings=(*message.warnings, Reason("late", note)),
    )


def _since_then(kind: MessageKind, row: StoredMessage, warehouse: Warehouse) -> str:
    alerts = {MessageKind.BROKEN, MessageKind.WORSE, MessageKind.OVERDUE, MessageKind.RECOVERED}
    if not row.test or kind not in alerts:
        return ""
    found = warehouse.incidents.find_open(row.test)
    if kind is MessageKind.RECOVERED:
        is_later = found is not None and found.opened_at > row.timestamp
        return f"The test has failed again since {_minute(found.opened_at)}." if found and is_later else ""
    if found is not None and (found.opened_by == row.message or row.run_key in found.run_keys):
        return "The test still fails."
    ends = [one.closed_at for one in warehouse.incidents.closed_since(row.timestamp) if one.test == row.test]
    if not ends:
        return ""
    again = f", and has failed again since {_minute(found.opened_at)}" if found is not None else ""
    return f"The test has recovered since, on {_minute(ends[-1])}{again}."


def _minute(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"


def _may_be_sent_now(row: StoredMessage, now: datetime) -> bool:
    """Whether the process that wrote a message, or a sender that lost its lease, may still be sending it."""
    soon = now + HOLD_OFF
    waits = any(is_due(one, soon) and not is_due(one, now) for one in row.channels.values())  # after an attempt
    return now < row.next_attempt <= soon and not waits


def for_digest(rows: Iterable[StoredMessage], now: datetime) -> set[str]:
    """The messages about tests that should rather be in a digest, once a channel for their recipients works."""
    rows = [one for one in rows if one.test and not one.held_because and one.occasion not in FOR_RECIPIENTS]
    old = [one for one in rows if now - one.timestamp >= DAY]
    many, tests = Counter(one.recipients for one in old), {one.test for one in old}
    # what happened to such a test later is not told before
    late = [one for one in rows if one.test in tests and now - one.timestamp >= LATE]
    return {one.message for one in late if many[one.recipients] >= FEWEST}


def in_order(rows: Iterable[StoredMessage]) -> list[list[StoredMessage]]:
    """Return messages in groups: those of one test are sent one after the other, so that a recovery comes last.

    Groups are in order of time, after one that tries the channels. That is the oldest, unless it has failed repeatedly:
    one that a channel never accepts must not hide that the channel works for all others.
    """
    groups: dict[str, list[StoredMessage]] = {}
    for row in sorted(rows, key=lambda one: (one.timestamp, one.message)):
        groups.setdefault(row.test or row.message, []).append(row)
    free = [group for group in groups.values() if not group[0].lease]
    first = min(free, key=lambda group: group[0].attempts // 2, default=None)
    return [*([first] if first else []), *(group for group in free if group is not first)]
