"""The deliveries of messages. Rows are only added."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from ml_metrics.values import as_utc
from ml_metrics.warehouse.deployment import OF_DEPLOYMENT, of_deployment

if TYPE_CHECKING:
    from datetime import datetime

    from ml_metrics.warehouse.database import Database

COLUMNS = """message, channel, state, timestamp, test_name AS test, uuid AS run_key, occasion, owner, recipients,
  subject, reasons, attempts, detail"""
"""The fields of a `Delivery`."""

RECORD = """
INSERT INTO deliveries
  (message, channel, state, timestamp, test_name, uuid, occasion, owner, recipients, subject, reasons, attempts, detail,
  deployment)
SELECT :message, :channel, :state, :timestamp, :test, :run_key, :occasion, :owner, :recipients, :subject, :reasons,
  :attempts, :detail, :deployment
FROM (SELECT 1 AS one) AS alone
WHERE NOT EXISTS (
  SELECT 1 FROM deliveries AS earlier
  WHERE earlier.message = :message AND earlier.channel = :channel AND earlier.state = :state
)
"""

SINCE = f"""
SELECT {COLUMNS} FROM deliveries
WHERE {OF_DEPLOYMENT} AND timestamp >= :since AND (:test = '' OR test_name = :test)
ORDER BY timestamp DESC, message, channel, state
LIMIT :limit
"""  # noqa: S608  (constants)

WAITING = f"""
SELECT {COLUMNS} FROM deliveries AS one
WHERE {of_deployment("one")}
  AND one.timestamp >= :since AND one.state IN ('held', 'kept') AND one.uuid <> '' AND NOT EXISTS (
  SELECT 1 FROM deliveries AS later
  WHERE later.message = one.message AND later.channel = one.channel AND later.timestamp >= :since
    AND later.state IN ('summarised', 'delivered')
)
ORDER BY one.timestamp, one.message, one.channel
"""  # noqa: S608  (constants)
"""Messages that are held for a digest, or that are kept because their channel failed."""

COUNT = f"""
SELECT COUNT(DISTINCT message) AS messages FROM deliveries
WHERE {OF_DEPLOYMENT} AND timestamp >= :since AND owner = :owner AND state = 'delivered' AND uuid <> ''
"""  # noqa: S608  (constants)


@dataclass(frozen=True, slots=True)
class Delivery:
    """The state of one message on one channel."""

    message: str
    """The key of the message: the run key and the occasion."""
    channel: str
    state: str
    """`delivered`, `kept` (in the outbox, because the channel failed), `held` for a digest, or `summarised` in one."""
    timestamp: datetime
    test: str
    run_key: str
    """Empty for a message about several runs."""
    occasion: str
    owner: str
    recipients: tuple[str, ...]
    subject: str
    reasons: tuple[str, ...]
    attempts: int = 1
    detail: str = ""
    """Where the message is, or why it could not be delivered."""


@dataclass(frozen=True, slots=True)
class Deliveries:
    """Queries for deliveries, and the recording of one."""

    database: Database

    def record(self, delivery: Delivery) -> bool:
        """Record the state of a message on a channel. False if that state was recorded before."""
        lists = {"recipients": json.dumps(delivery.recipients), "reasons": json.dumps(delivery.reasons)}
        row = {**asdict(delivery), **lists, "timestamp": as_utc(delivery.timestamp)}
        return self.database.change(RECORD, **row) > 0

    def since(self, moment: datetime, test: str = "", limit: int = 100) -> list[Delivery]:
        """Return the deliveries since a moment, newest first."""
        return [_delivery(row) for row in self.database.query(SINCE, since=as_utc(moment), test=test, limit=limit)]

    def waiting(self, since: datetime) -> list[Delivery]:
        """Return what is not delivered yet, oldest first: held for a digest, or rejected by its channel."""
        return [_delivery(row) for row in self.database.query(WAITING, since=as_utc(since))]

    def count(self, owner: str, since: datetime) -> int:
        """Return the number of messages about single runs that an owner received since a moment."""
        return int(self.database.query(COUNT, owner=owner, since=as_utc(since))[0]["messages"])


def _delivery(row: dict[str, Any]) -> Delivery:
    lists = {"recipients": tuple(json.loads(row["recipients"])), "reasons": tuple(json.loads(row["reasons"]))}
    return Delivery(**{**row, **lists})
