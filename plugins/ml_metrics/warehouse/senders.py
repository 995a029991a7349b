"""The passes of the senders of messages: when one last ran, and what it did."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from ml_metrics.values import as_utc

if TYPE_CHECKING:
    from ml_metrics.warehouse.database import Database

SILENT_AFTER = timedelta(minutes=15)
"""After this time without a pass, no sender runs: one that runs has a pass every five minutes."""
LISTED = timedelta(days=7)
"""How long a message that could not be sent is reported."""
CLOCK_TOLERANCE = timedelta(minutes=5)
"""A pass that is farther ahead was recorded with a wrong clock."""

UPDATE = """
UPDATE senders SET timestamp = :now, sent = :sent, pending = :pending, detail = :detail
WHERE deployment = :deployment AND sender = :sender
"""

ADD = """
INSERT INTO senders (deployment, sender, timestamp, sent, pending, detail)
SELECT :deployment, :sender, :now, :sent, :pending, :detail
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
  (SELECT MAX(timestamp) FROM senders WHERE deployment = :deployment AND timestamp <= :latest) AS timestamp,
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
        """Return since when no sender has run although one should; None if one runs, or none was ever needed."""
        since = self.last_pass or self.oldest
        return since if since is not None and since <= now - SILENT_AFTER else None


@dataclass(frozen=True, slots=True)
class Senders:
    """The senders of one deployment."""

    database: Database

    def record(self, one: SenderPass) -> None:
        """Record the pass of a sender, in place of its last one."""
        row = {"sender": one.sender, "now": as_utc(one.timestamp), "sent": one.sent}
        row |= {"pending": one.pending, "detail": one.detail}
        if not self.database.change(UPDATE, **row):
            self.database.change(ADD, **row)

    def newest(self) -> SenderPass | None:
        """Return the newest pass of any sender; None if none ever ran."""
        rows = self.database.query(NEWEST)
        return SenderPass(**rows[0]) if rows else None

    def state(self, now: datetime) -> SendersState:
        """Return when a sender last ran, and how many messages are pending or could not be sent."""
        (row,) = self.database.query(STATE, latest=as_utc(now) + CLOCK_TOLERANCE, since=as_utc(now) - LISTED)
        return SendersState(row["timestamp"], int(row["pending"]), row["oldest"], int(row["dead"]))
