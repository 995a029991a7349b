"""The passes of the senders of messages: when one last ran, and what it did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ml_metrics.values import as_utc

if TYPE_CHECKING:
    from datetime import datetime

    from ml_metrics.warehouse.database import Database

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
