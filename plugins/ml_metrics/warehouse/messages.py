"""The messages of a deployment, with their state: pending, held, sent, or dead.

A row is added when a message is decided, before it is sent. A sender takes a message under a lease, which no other
sender can take at the same time.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from ml_metrics.core.values import as_utc
from ml_metrics.warehouse.record import DAY
from ml_metrics.warehouse.tables import MESSAGES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ml_metrics.warehouse.database import Database


HOLD_OFF = timedelta(seconds=60)
"""How long senders leave a new message, or one whose sender vanished, to the process that may be sending it."""
LEASE = timedelta(minutes=2)
LATEST_ATTEMPT = timedelta(hours=2)
"""If a next attempt or the end of a lease is farther ahead, the clock of its writer was wrong."""
LONGEST_LIFE = timedelta(days=30)
"""How long after it was decided a message is given up at the latest, also if its row was added late."""
BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)

FIELDS = {"uuid": "run_key", "test_name": "test"}
"""The columns that a `StoredMessage` has under another name."""
COLUMNS = ", ".join(f"{name} AS {FIELDS.get(name, name)}" for name in MESSAGES.names)

MOMENT = "SELECT CURRENT_TIMESTAMP AS moment"

ADD = f"""
INSERT INTO messages ({", ".join(MESSAGES.names)})
SELECT {", ".join(f":{name}" for name in MESSAGES.names)}
FROM (SELECT 1 AS one) AS alone
WHERE NOT EXISTS (SELECT 1 FROM messages AS earlier WHERE earlier.message = :message)
"""

DUE = """
SELECT message, timestamp FROM messages
WHERE deployment = :deployment AND state = 'pending' AND (next_attempt <= :now OR next_attempt > :latest)
ORDER BY timestamp, message
LIMIT :limit
"""
"""Only the keys: there is almost never one, and a sender runs this query every five minutes."""


def _select(which: str, order: str = "timestamp, message") -> str:
    return f"SELECT {COLUMNS} FROM messages WHERE deployment = :deployment AND {which} ORDER BY {order}"


DUE_MESSAGES = _select("state = 'pending' AND message IN :messages AND timestamp >= :since")

TAKE = """
UPDATE messages SET lease = :lease, lease_until = :until, attempts = attempts + 1
WHERE message = :message AND state = 'pending' AND lease = '' AND attempts = :attempts
"""

REVOKE = """
UPDATE messages SET lease = '', next_attempt = :next_attempt
WHERE message = :message AND state = 'pending' AND lease = :lease
"""

FINISH = """
UPDATE messages SET
  state = CASE WHEN :state = 'held' AND held_because = :summarised THEN 'summarised' ELSE :state END,
  channels = :channels, next_attempt = :next_attempt, lease = '',
  attempts = CASE WHEN attempts = 0 THEN 1 ELSE attempts END
WHERE message = :message AND lease = :lease AND state = 'pending' AND (lease <> '' OR attempts = 0)
"""
"""Without a lease, the process that wrote the message may record one attempt, before any sender has."""

HOLD = """
UPDATE messages SET held_because = :held_because
WHERE message = :message AND state = 'pending' AND lease = '' AND held_because = '' AND attempts = :attempts
"""

SUMMARISE = """
UPDATE messages
SET held_because = :summarised, state = CASE WHEN state = 'held' THEN 'summarised' ELSE state END
WHERE deployment = :deployment AND message IN :messages AND state IN ('pending', 'held')
"""

WAITING = _select("timestamp >= :since AND state IN ('pending', 'held')")

DEAD = _select("timestamp >= :earliest AND state = 'dead' AND next_attempt >= :since")
"""The end of the last attempt is the next attempt of a dead message."""

PENDING_OF = _select("test_name = :test AND state = 'pending' AND held_because = ''")

SINCE = _select("timestamp >= :since AND (:test = '' OR test_name = :test)", "timestamp DESC, message LIMIT :limit")

OF_OCCASION = _select("timestamp >= :since AND occasion = :occasion", "timestamp DESC, message")

BY_KEY = _select("timestamp >= :since AND message IN :messages")

EXISTING = "SELECT message FROM messages WHERE deployment = :deployment AND message IN :messages"

COUNT = """
SELECT COUNT(*) AS messages, COALESCE(SUM(CASE WHEN test_name = :test THEN 1 ELSE 0 END), 0) AS about_test FROM messages
WHERE deployment = :deployment AND timestamp >= :since AND owner = :owner AND held_because = '' AND uuid <> ''
"""


class MessageState(StrEnum):
    """The state of a message."""

    PENDING = "pending"
    """It is to be sent."""
    HELD = "held"
    """It waits for the digest."""
    SENT = "sent"
    """Every channel accepted it."""
    SUMMARISED = "summarised"
    """It was in a digest."""
    DEAD = "dead"
    """A channel did not accept it within five days."""


IN_DIGEST = "it was in a digest"
"""Replaces the reason for which a message was held."""


class ChannelState(StrEnum):
    """The state of a message on one channel."""

    DELIVERED = "delivered"
    FAILED = "failed"
    DEAD = "dead"


@dataclass(frozen=True, slots=True)
class ChannelResult:
    """The result of the last attempt on one channel."""

    state: str
    """A `ChannelState`."""
    attempts: int = 0
    detail: str = ""
    """Where the message is, or why it could not be sent."""
    at: str = ""
    not_before: str = ""
    """When the channel may be tried again."""

    @property
    def is_delivered(self) -> bool:
        return self.state == ChannelState.DELIVERED


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A row of `messages`."""

    message: str
    """The key of the message, made from the run, the occasion and the content."""
    run_key: str
    """Empty for a message that is not about one run."""
    test: str
    owner: str
    occasion: str
    content_hash: str
    timestamp: datetime
    """When the message was decided."""
    recipients: tuple[str, ...]
    subject: str
    reasons: tuple[str, ...]
    deployment: str = ""
    """Set by the warehouse."""
    document: str = ""
    """The path of the whole message; empty if it could not be written there, and `content` holds it."""
    content: str = ""
    state: str = MessageState.PENDING
    attempts: int = 0
    """How often its writer, or a sender, tried to send the message."""
    next_attempt: datetime = BEGINNING
    held_because: str = ""
    """Why the message waits for the digest; empty if it is sent at once."""
    channels: Mapping[str, ChannelResult] = field(default_factory=dict)
    lease: str = ""
    """The sender that has the message now."""
    lease_until: datetime = BEGINNING


@dataclass(frozen=True, slots=True)
class Messages:
    """The messages of one deployment."""

    database: Database

    def moment(self) -> datetime:
        """By the warehouse's clock, which all senders share."""
        return as_utc(self.database.query(MOMENT)[0]["moment"])

    def add(self, message: StoredMessage) -> bool:
        """False if it is there already. For a minute, senders leave it to the process that decided it."""
        row = asdict(message) | {
            "recipients": json.dumps(message.recipients),
            "reasons": json.dumps(message.reasons),
            "channels": _as_json(message.channels),
            "state": str(message.state),
            "timestamp": as_utc(message.timestamp),
            "next_attempt": self.moment() + HOLD_OFF,
        }
        return self.database.change(ADD, **{name: row[FIELDS.get(name, name)] for name in MESSAGES.names}) > 0

    def existing(self, keys: Sequence[str]) -> set[str]:
        return {row["message"] for row in self.database.query(EXISTING, messages=list(keys))} if keys else set()

    def by_key(self, keys: Sequence[str], since: datetime) -> dict[str, StoredMessage]:
        found = self._read(BY_KEY, messages=list(keys), since=as_utc(since)) if keys else []
        return {one.message: one for one in found}

    def due(self, now: datetime, limit: int = 500) -> list[StoredMessage]:
        """Those to be sent now, oldest first, also those that a sender has a lease of."""
        due = self.database.query(DUE, now=as_utc(now), latest=as_utc(now) + LATEST_ATTEMPT, limit=limit)
        keys = [row["message"] for row in due]
        return self._read(DUE_MESSAGES, messages=keys, since=due[0]["timestamp"] - DAY) if due else []

    def take(self, message: StoredMessage, lease: str, now: datetime) -> bool:
        """Take a message that no sender has. False if another sender was faster."""
        return self._change(TAKE, message.message, lease=lease, until=now + LEASE, attempts=message.attempts)

    def revoke(self, message: StoredMessage, now: datetime) -> bool:
        """End the lease of a vanished sender, or of a wrong clock; none can take it until such a sender has ended."""
        ended = message.lease_until <= now or message.lease_until > now + LATEST_ATTEMPT
        return ended and self._change(REVOKE, message.message, lease=message.lease, next_attempt=now + HOLD_OFF)

    def finish(
        self,
        message: str,
        lease: str,
        state: MessageState,
        channels: Mapping[str, ChannelResult],
        next_attempt: datetime = BEGINNING,
    ) -> bool:
        """End a lease with its result. False if the lease was taken. Held after a digest reported it: summarised."""
        row = {"state": str(state), "channels": _as_json(channels), "next_attempt": as_utc(next_attempt)}
        return self._change(FINISH, message, lease=lease, summarised=IN_DIGEST, **row)

    def hold(self, message: StoredMessage, held_because: str) -> bool:
        """Let it wait for the digest. False if a sender has it. Channels with an entry for each test still get it."""
        return self._change(HOLD, message.message, held_because=held_because, attempts=message.attempts)

    def summarise(self, keys: Sequence[str]) -> None:
        if keys:
            self.database.change(SUMMARISE, messages=list(keys), summarised=IN_DIGEST)

    def held(self, since: datetime) -> list[StoredMessage]:
        return [one for one in self.waiting(since) if one.held_because not in {"", IN_DIGEST}]

    def waiting(self, since: datetime) -> list[StoredMessage]:
        """Pending, or held for the digest; oldest first."""
        return self._read(WAITING, since=as_utc(since))

    def pending_of(self, test: str) -> list[StoredMessage]:
        """Those about a test that are to be sent at once, oldest first."""
        return self._read(PENDING_OF, test=test)

    def since(self, moment: datetime, test: str = "", limit: int = 100) -> list[StoredMessage]:
        """Newest first."""
        return self._read(SINCE, since=as_utc(moment), test=test, limit=limit)

    def dead(self, since: datetime) -> list[StoredMessage]:
        """Those that were given up, oldest first."""
        return self._read(DEAD, since=as_utc(since), earliest=as_utc(since) - LONGEST_LIFE)

    def of_occasion(self, occasion: str, since: datetime) -> list[StoredMessage]:
        """Newest first."""
        return self._read(OF_OCCASION, occasion=str(occasion), since=as_utc(since))

    def count(self, owner: str, test: str, since: datetime) -> tuple[int, int]:
        """How many messages about single runs an owner was to get at once since a moment, and those about one test."""
        found = self.database.query(COUNT, owner=owner, test=test, since=as_utc(since))[0]
        return int(found["messages"]), int(found["about_test"])

    def _read(self, query: str, **values: Any) -> list[StoredMessage]:
        return [_stored(row) for row in self.database.query(query, **values)]

    def _change(self, statement: str, message: str, **values: Any) -> bool:
        return self.database.change(statement, message=message, **values) > 0


def _as_json(channels: Mapping[str, ChannelResult]) -> str:
    return json.dumps({name: asdict(result) for name, result in channels.items()})


def _stored(row: dict[str, Any]) -> StoredMessage:
    lists = {name: tuple(json.loads(row[name])) for name in ("recipients", "reasons")}
    channels = {name: ChannelResult(**result) for name, result in json.loads(row["channels"]).items()}
    return StoredMessage(**{**row, **lists, "channels": channels})


SILENT_AFTER = timedelta(minutes=15)
"""After this time without a pass, no sender runs: one that runs has a pass every five minutes."""
LISTED = timedelta(days=7)
"""How long a message that could not be sent is reported."""
CLOCK_TOLERANCE = timedelta(minutes=5)
"""A pass that is farther ahead was recorded with a wrong clock."""

UPDATE = """
UPDATE senders SET timestamp = :timestamp, sent = :sent, pending = :pending, detail = :detail
WHERE deployment = :deployment AND sender = :sender
"""

ADD_SENDER = """
INSERT INTO senders (deployment, sender, timestamp, sent, pending, detail)
SELECT :deployment, :sender, :timestamp, :sent, :pending, :detail
FROM (SELECT 1 AS one) AS alone
WHERE NOT EXISTS (
  SELECT 1 FROM senders AS earlier WHERE earlier.deployment = :deployment AND earlier.sender = :sender
)
"""

NEWEST = """
SELECT sender, timestamp, sent, pending, detail FROM senders
WHERE deployment = :deployment
ORDER BY timestamp DESC
LIMIT 1
"""

STATE = """
SELECT
  (SELECT MAX(timestamp) FROM senders WHERE deployment = :deployment AND timestamp <= :latest) AS last_pass,
  COUNT(CASE WHEN state = 'pending' THEN 1 END) AS pending,
  MIN(CASE WHEN state = 'pending' THEN timestamp END) AS oldest,
  COUNT(CASE WHEN state = 'dead' AND next_attempt >= :since THEN 1 END) AS dead
FROM messages
WHERE deployment = :deployment AND state IN ('pending', 'dead')
"""


@dataclass(frozen=True, slots=True)
class SenderPass:
    """The last pass of one sender."""

    sender: str
    """What sent: `ml_messages`, `run` or `command line`."""
    timestamp: datetime
    sent: int = 0
    pending: int = 0
    """How many messages were still to be sent afterwards."""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class SendersState:
    """Whether messages are sent at all."""

    last_pass: datetime | None
    """When the last pass of any sender ended; None if none ever ran."""
    pending: int = 0
    oldest: datetime | None = None
    """When the oldest pending message was decided."""
    dead: int = 0
    """How many messages were given up in the last week."""

    def silent_since(self, now: datetime) -> datetime | None:
        """Since when no sender has run although one should; None if one runs, or none was ever needed."""
        since = self.last_pass or self.oldest
        return since if since is not None and since <= now - SILENT_AFTER else None


@dataclass(frozen=True, slots=True)
class Senders:
    """The senders of one deployment."""

    database: Database

    def record(self, one: SenderPass) -> None:
        """Record the pass of a sender, in place of its last one."""
        row = asdict(one) | {"timestamp": as_utc(one.timestamp)}
        if not self.database.change(UPDATE, **row):
            self.database.change(ADD_SENDER, **row)

    def newest(self) -> SenderPass | None:
        rows = self.database.query(NEWEST)
        return SenderPass(**rows[0]) if rows else None

    def state(self, now: datetime) -> SendersState:
        (row,) = self.database.query(STATE, latest=as_utc(now) + CLOCK_TOLERANCE, since=as_utc(now) - LISTED)
        return SendersState(**row)
