"""One pass of a sender: it sends every message that is due, each under a lease that no other sender can have.

A pass may be killed at any moment: what it sent is recorded beside the message at once, and a lease ends by itself.
"""

from __future__ import annotations

import time
import uuid
from collections import deque
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from threading import Lock, Thread
from typing import TYPE_CHECKING

from ml_metrics.errors import MlMetricsError, StorageError, WarehouseError
from ml_metrics.log_lines import logger_of
from ml_metrics.notify.adopt import adopt
from ml_metrics.notify.incidents import post_updates
from ml_metrics.notify.late import HELD_BECAUSE, dated, for_digest, for_recipients
from ml_metrics.notify.outcome import later, outcome_of
from ml_metrics.notify.retry import GIVEN_UP_AFTER
from ml_metrics.notify.send import addressed, hurry, send_on
from ml_metrics.notify.taken_message import bury, channels_of, open_channels, read_message
from ml_metrics.notify.working_channels import WorkingChannels
from ml_metrics.warehouse import MessageState, SenderPass
from ml_metrics.warehouse.messages import HOLD_OFF
from ml_metrics.warehouse.senders import SILENT_AFTER

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from ml_metrics.alerts.channels.channel import Channel
    from ml_metrics.alerts.delivery import DeliveryResult
    from ml_metrics.model import Run
    from ml_metrics.notify.mail_settings import MailSettings
    from ml_metrics.notify.outcome import Outcome
    from ml_metrics.warehouse import StoredMessage, Warehouse

log = logger_of(__name__)

DAG, RUN, COMMAND_LINE = "ml_messages", "run", "command line"
"""The senders."""
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


def send_pending(  # noqa: PLR0913  (what a sender may be given)
    warehouse: Warehouse,
    mail: MailSettings,
    *,
    sender: str = DAG,
    seconds: float = PASS_SECONDS,
    wait: Callable[[float], None] | None = None,
    has_ended: Callable[[Run], bool | None] = lambda _: None,
) -> SenderPass:
    """Send what is due, and record the pass. Two passes at once send nothing twice.

    Args:
        warehouse: the warehouse.
        mail: the settings of the deployment.
        sender: the name under which the pass is recorded.
        seconds: the time for the pass.
        wait: waits for messages that are new, or whose sender vanished, and that are free within the pass; None leaves
            them to the next.
        has_ended: asks Airflow whether a run has ended; None if that is unknown.
    """
    ends = time.monotonic() + seconds
    one_pass = _Pass(warehouse, mail, ends, f"{sender} {uuid.uuid4().hex[:12]}")
    one_pass.adopt(has_ended)
    one_pass.update_incidents()
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
    return send_pending(warehouse, mail, sender=RUN, seconds=seconds)


@dataclass(slots=True)
class _Pass:
    warehouse: Warehouse
    mail: MailSettings
    ends: float
    lease: str
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
        """The seconds until the end of the pass."""
        return self.ends - time.monotonic()

    def adopt(self, has_ended: Callable[[Run], bool | None]) -> None:
        """Add the rows of messages that were written while the warehouse was down."""
        try:
            for problem in adopt(self.mail, self.warehouse, has_ended, lambda: self.left > MARGIN_SECONDS):
                self._report(problem)
        except MlMetricsError as error:
            self._report(f"messages without a row may be left in their folders: {error}")

    def update_incidents(self) -> None:
        """Write the updates of incidents with several tests, and send those that this pass wrote at once."""
        try:
            for posted in post_updates(self.warehouse, self.mail, datetime.now(UTC)):
                if self.left > PASS_SECONDS / 2:
                    hurry(posted, self.mail, self.warehouse)
        except Exception as error:  # no error of an update may keep messages from being sent
            log.exception("incidents with several tests could not be updated")
            self._report(f"an incident with several tests has no update: {type(error).__name__}: {error}")

    def send_due(self) -> None:
        """Send the messages that are due, in a few threads."""
        now, began = self.warehouse.messages.moment(), time.monotonic()
        due = self.warehouse.messages.due(now, MAX_MESSAGES)
        taken = [one for one in due if one.lease]
        self.revoked = sum(self.warehouse.messages.revoke(one, now) for one in taken)
        self._groups, self._late = deque(in_order(due)), for_digest(due, now)

        def work() -> None:
            while self.left > MARGIN_SECONDS:
                try:
                    group = self._groups.popleft()
                except IndexError:
                    return
                for row in group:
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
        """Record this pass."""
        moment = self.warehouse.messages.moment()
        for name in self.channels.down:
            self._report(f"{name} is down")
        pending = self.warehouse.senders.state(moment).pending
        done = SenderPass(sender, moment, self.sent, pending, "; ".join(self.problems))
        self.warehouse.senders.record(done)
        return done

    def _send_one(self, row: StoredMessage, now: datetime) -> bool:
        """Send one message. False if later messages of its test should wait for it."""
        wanted = {one.name: one for one in open_channels(row, self.mail, now)}
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
        except Exception as error:
            log.exception("%s: could not be sent", row.subject)
            self._report(f"{row.subject}: {type(error).__name__}: {error}")
            return True
        finally:
            for name in unused:
                self.channels.release(name, works=None)
        with self._lock:
            self.sent += state is MessageState.SENT
        return state is not MessageState.PENDING or row.attempts >= IN_ORDER_ATTEMPTS

    def _take_and_send(
        self, row: StoredMessage, channels: list[Channel], now: datetime, unused: set[str]
    ) -> MessageState:
        """Send a message on some channels under a lease, and return its state."""
        taken = time.monotonic()
        self._tried.add(row.message)
        if not self.warehouse.messages.take(row, self.lease, now):
            return MessageState.PENDING
        try:
            message, record = read_message(row)
        except StorageError as error:
            self._report(f"{row.subject}: {error}")
            return self._finish(row, later(row, now))
        results: list[DeliveryResult] = []
        if time.monotonic() - taken < LATEST_START_SECONDS:
            message = dated(addressed(message, self.mail), row, self.warehouse, now)
            results = send_on(message, channels, record, max(MARGIN_SECONDS, min(CHANNEL_SECONDS, self.left)))
        for one in results:
            self.channels.release(one.channel, works=one.accepted or not one.temporary)
            unused.discard(one.channel)
        outcome = outcome_of(row, channels_of(row, self.mail), record, results, now)
        if outcome.state is MessageState.DEAD:
            bury(row, message, outcome.channels, self.mail)
        return self._finish(row, outcome)

    def _leave_to_digest(self, row: StoredMessage, wanted: Collection[Channel]) -> bool:
        """Let the next digest report a message that is more than a day late, if its channels work again."""
        every, left = for_recipients(channels_of(row, self.mail)), for_recipients(wanted)
        reached_nobody = bool(left) and left == every
        return reached_nobody and self.channels.all_work(left) and self.warehouse.messages.hold(row, HELD_BECAUSE)

    def _finish(self, row: StoredMessage, outcome: Outcome) -> MessageState:
        done = self.warehouse.messages.finish(
            row.message, self.lease, outcome.state, outcome.channels, outcome.next_attempt
        )
        if done:
            return outcome.state
        self._report(f"{row.subject}: another sender has taken it over")
        return MessageState.PENDING

    def _report(self, problem: str) -> None:
        log.warning("%s", problem)
        with self._lock:
            self.problems.append(problem)


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
