"""The open incidents of tests: opened by an alert, acknowledged by a user, closed on recovery. Rows are only added."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import groupby
from typing import TYPE_CHECKING, Any

from ml_metrics.values import as_utc
from ml_metrics.warehouse.deployment import of_deployment

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ml_metrics.warehouse.database import Database

ALL_OPEN = f"""
SELECT message.test_name, message.opened_by, message.kind, message.uuid, message.timestamp, message.fingerprint,
  message.reasons, message.said_by, message.note
FROM alerts AS message
WHERE {of_deployment("message")} AND NOT EXISTS (
  SELECT 1 FROM alerts AS ended
  WHERE ended.test_name = message.test_name AND ended.opened_by = message.opened_by AND ended.kind = 'closed'
    AND {of_deployment("ended")}
)
ORDER BY message.test_name, message.opened_by, message.timestamp, CASE WHEN message.kind = 'opened' THEN 0 ELSE 1 END
"""  # noqa: S608  (constants)
"""The rows of open incidents. An incident is open until one of its rows is `closed`."""

OPEN_OF_TEST = ALL_OPEN.replace("WHERE ", "WHERE message.test_name = :test AND ", 1)

OPEN = f"""
INSERT INTO alerts (test_name, opened_by, kind, uuid, timestamp, fingerprint, reasons, deployment)
SELECT :test, :incident, 'opened', :run, :at, :fingerprint, :reasons, :deployment
FROM (SELECT 1 AS one) AS alone
WHERE NOT EXISTS (SELECT 1 FROM alerts AS earlier WHERE earlier.test_name = :test AND earlier.opened_by = :incident)
  AND NOT EXISTS (
    SELECT 1 FROM alerts AS earlier
    WHERE earlier.test_name = :test AND {of_deployment("earlier")} AND earlier.opened_by NOT IN (
      SELECT ended.opened_by FROM alerts AS ended
      WHERE ended.test_name = :test AND ended.kind = 'closed' AND {of_deployment("ended")}
    )
  )
"""  # noqa: S608  (constants)

ADD = f"""
INSERT INTO alerts (test_name, opened_by, kind, uuid, timestamp, fingerprint, reasons, deployment)
SELECT :test, :incident, :kind, :run, :at, :fingerprint, :reasons, :deployment
FROM (SELECT 1 AS one) AS alone
WHERE NOT EXISTS (
  SELECT 1 FROM alerts AS earlier
  WHERE earlier.test_name = :test AND earlier.opened_by = :incident AND {of_deployment("earlier")}
    AND (earlier.kind = 'closed' OR (earlier.kind = :kind AND earlier.uuid = :run))
)
"""  # noqa: S608  (constants)

ACKNOWLEDGE = f"""
INSERT INTO alerts (test_name, opened_by, kind, uuid, timestamp, fingerprint, reasons, said_by, note, deployment)
SELECT :test, :incident, 'acknowledged', :run, :at, :fingerprint, :reasons, :said_by, :note, :deployment
FROM (SELECT 1 AS one) AS alone
WHERE NOT EXISTS (
  SELECT 1 FROM alerts AS earlier
  WHERE earlier.test_name = :test AND earlier.opened_by = :incident AND {of_deployment("earlier")}
    AND earlier.kind IN ('closed', 'acknowledged')
)
"""  # noqa: S608  (constants)


@dataclass(frozen=True, slots=True)
class Incident:
    """An open incident: a test that an alert was sent about and that has not recovered."""

    test: str
    opened_by: str
    """The key of the message that opened the incident, which identifies it."""
    opened_at: datetime
    fingerprint: str
    """What is broken now, without the numbers."""
    reasons: tuple[str, ...]
    """The reasons of the last alert."""
    run_keys: tuple[str, ...]
    """The keys of all runs that an alert was sent about."""
    reported: tuple[str, ...] = ()
    """The reasons of all alerts of this incident."""
    acknowledged_by: str | None = None
    acknowledged_at: datetime | None = None
    note: str = ""
    """The note of the user who acknowledged the incident."""

    def document(self) -> dict[str, Any]:
        """Return the incident as a JSON document."""
        older_names = {"run_keys": "told_about", "reported": "told"}
        return {older_names.get(name, name): value for name, value in asdict(self).items()}


@dataclass(frozen=True, slots=True)
class Incidents:
    """Queries for open incidents, and the changes of an incident."""

    database: Database

    def find_open(self, test: str) -> Incident | None:
        """Return the open incident of a test, if it has one."""
        return next(_incidents(self.database.query(OPEN_OF_TEST, test=test)), None)

    def all_open(self) -> dict[str, Incident]:
        """Return the open incident of each test that has one, by test."""
        return {one.test: one for one in _incidents(self.database.query(ALL_OPEN))}

    def report(  # noqa: PLR0913  (the columns of a row)
        self,
        test: str,
        run_key: str,
        *,
        incident: str = "",
        fingerprint: str,
        reasons: Sequence[str],
        at: datetime | None = None,
    ) -> bool:
        """Record an alert about a broken run: open the incident with this key, or change the one that is open.

        The key is that of the message; without one, it is the run key.

        Return whether a row was added. None is added if an incident with this key was opened before, even where it
        has been closed since, if this run has no new reason, or if the open incident already has this fingerprint.
        """
        message = {"fingerprint": fingerprint, "reasons": json.dumps(list(reasons))}
        moment = as_utc(at or datetime.now(UTC))
        if self.database.change(OPEN, test=test, run=run_key, incident=incident or run_key, at=moment, **message):
            return True
        found = self.find_open(test)
        if found is None or found.fingerprint == fingerprint:
            return False
        if run_key in found.run_keys and set(reasons) <= set(found.reported):
            return False
        return self._add(ADD, found, run_key, at, kind="changed", **message)

    def acknowledge(self, test: str, *, by: str, note: str = "", at: datetime | None = None) -> bool:
        """Record that a user acknowledged the open incident of a test. False if none is open or it already is."""
        incident = self.find_open(test)
        return incident is not None and self._add(
            ACKNOWLEDGE, incident, incident.run_keys[-1], at, said_by=by, note=note
        )

    def close(self, test: str, run_key: str, *, incident: str = "", at: datetime | None = None) -> bool:
        """Record that the recovery of a test was reported. False if no incident, or not this one, is open."""
        found = self.find_open(test)
        if found is None or incident not in {"", found.opened_by}:
            return False
        return self._add(ADD, found, run_key, at, kind="closed")

    def _add(self, statement: str, incident: Incident, run_key: str, at: datetime | None, **row: Any) -> bool:
        """Add a row to an incident. Its fingerprint and reasons stay the same unless the row has others."""
        same = {"fingerprint": incident.fingerprint, "reasons": json.dumps(incident.reasons)}
        names = {"test": incident.test, "incident": incident.opened_by, "run": run_key}
        return self.database.change(statement, **names, at=as_utc(at or datetime.now(UTC)), **{**same, **row}) > 0


def _incidents(rows: Iterable[dict[str, Any]]) -> Iterator[Incident]:
    """Build the open incident of each test from its rows; of several of one test, the first by key."""
    for _, of_test in groupby(rows, key=lambda row: row["test_name"]):
        _, messages = next(groupby(of_test, key=lambda row: row["opened_by"]))
        yield _incident(list(messages))


def _incident(messages: list[dict[str, Any]]) -> Incident:
    first, last = messages[0], messages[-1]
    acknowledged = next((row for row in messages if row["kind"] == "acknowledged"), None)
    return Incident(
        test=first["test_name"],
        opened_by=first["opened_by"],
        opened_at=first["timestamp"],
        fingerprint=last["fingerprint"],
        reasons=tuple(json.loads(last["reasons"])),
        run_keys=tuple(row["uuid"] for row in messages if row["kind"] != "acknowledged"),
        reported=tuple(dict.fromkeys(reason for row in messages for reason in json.loads(row["reasons"]))),
        acknowledged_by=acknowledged["said_by"] if acknowledged else None,
        acknowledged_at=acknowledged["timestamp"] if acknowledged else None,
        note=(acknowledged["note"] or "") if acknowledged else "",
    )
