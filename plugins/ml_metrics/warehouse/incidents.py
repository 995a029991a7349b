"""The open incidents of tests: opened by an alert, acknowledged and assigned by users, closed on recovery.

Each row has the time at which its message was decided. A message may be recorded late, by another process, and after
later ones: the times decide, so that the order of recording makes no difference.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import TYPE_CHECKING, Any

from ml_metrics.core.values import as_utc
from ml_metrics.warehouse.database import OF_DEPLOYMENT, of_deployment

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ml_metrics.warehouse.database import Database


def _open(which: str = "") -> str:
    """The query for the rows of open incidents. An incident is open until one of its rows is `closed`."""
    return f"""
SELECT message.test_name, message.opened_by, message.kind, message.uuid, message.timestamp, message.fingerprint,
  message.reasons, message.said_by, message.note, message.cause, message.cost
FROM alerts AS message
WHERE {which}{of_deployment("message")} AND NOT EXISTS (
  SELECT 1 FROM alerts AS ended
  WHERE ended.test_name = message.test_name AND ended.opened_by = message.opened_by AND ended.kind = 'closed'
    AND {of_deployment("ended")}
)
ORDER BY message.test_name, message.opened_by, message.timestamp, CASE WHEN message.kind = 'opened' THEN 0 ELSE 1 END
"""


ALL_OPEN = _open()

OPEN_OF_TEST = _open("message.test_name = :test AND ")

OPEN_OF_CAUSE = _open(
    "message.opened_by IN (SELECT caused.opened_by FROM alerts AS caused WHERE caused.cause = :cause) AND "
)

OPENED = f"""
SELECT test_name, MIN(timestamp) AS opened_at
FROM alerts
WHERE {OF_DEPLOYMENT} AND kind = 'opened' AND timestamp >= :since
GROUP BY test_name
ORDER BY test_name
"""

TESTS_OF_CAUSE = f"""
SELECT DISTINCT test_name FROM alerts
WHERE {OF_DEPLOYMENT} AND cause = :cause AND timestamp >= :since
"""

NEWEST = f"SELECT MAX(timestamp) AS newest FROM alerts WHERE test_name = :test AND {OF_DEPLOYMENT}"

LAST_CLOSED = f"""
SELECT opened_by FROM alerts
WHERE test_name = :test AND {OF_DEPLOYMENT} AND kind = 'closed'
ORDER BY timestamp DESC, opened_by
LIMIT 1
"""

CLOSED = f"""
SELECT test_name AS test, uuid AS run_key, timestamp AS closed_at, reasons, opened_by FROM alerts
WHERE {OF_DEPLOYMENT} AND kind = 'closed' AND reasons <> '[]' AND timestamp >= :since
ORDER BY timestamp DESC, test_name
"""

EARLIER = f"""FROM alerts AS earlier
  WHERE earlier.test_name = :test AND earlier.opened_by = :incident AND {of_deployment("earlier")}"""


def _add(kind: str, condition: str, *more: str) -> str:
    """The statement that adds a row of a kind to an incident, with `more` columns, under a condition."""
    names = ("fingerprint", "reasons", *more, "deployment")
    return f"""
INSERT INTO alerts (test_name, opened_by, kind, uuid, timestamp, {", ".join(names)})
SELECT :test, :incident, '{kind}', :run, :at, {", ".join(f":{name}" for name in names)}
FROM (SELECT 1 AS one) AS alone
WHERE {condition}
"""


OPEN = _add(
    "opened",
    f"""NOT EXISTS (SELECT 1 FROM alerts AS earlier WHERE earlier.test_name = :test AND earlier.opened_by = :incident)
  AND NOT EXISTS (
    SELECT 1 FROM alerts AS later
    WHERE later.test_name = :test AND {of_deployment("later")} AND later.kind = 'closed' AND later.timestamp >= :at
  )
  AND NOT EXISTS (
    SELECT 1 FROM alerts AS earlier
    WHERE earlier.test_name = :test AND {of_deployment("earlier")} AND earlier.opened_by NOT IN (
      SELECT ended.opened_by FROM alerts AS ended
      WHERE ended.test_name = :test AND ended.kind = 'closed' AND {of_deployment("ended")}
    )
  )""",
    "cause",
    "cost",
)

OUTDATED = f"""
SELECT COUNT(*) AS outdated FROM alerts
WHERE test_name = :test AND {OF_DEPLOYMENT} AND kind = 'closed' AND (timestamp >= :at OR opened_by = :incident)
"""
"""A test that recovered after a message was decided is not changed by that message any more."""

CHANGE = _add(
    "changed",
    f"""NOT EXISTS (SELECT 1 {EARLIER}
    AND (earlier.kind = 'closed' OR (earlier.kind = 'changed' AND earlier.uuid = :run)))""",
    "cause",
    "cost",
)

MERGE = """
UPDATE alerts
SET timestamp = CASE WHEN timestamp < :at THEN :at ELSE timestamp END, fingerprint = :fingerprint, reasons = :reasons,
  cause = :cause, cost = :cost
WHERE test_name = :test AND opened_by = :incident AND kind = 'changed' AND uuid = :run
"""
"""The key of the table has room for one change of an incident by each run."""

EXPLAIN = f"""
UPDATE alerts SET cause = :cause
WHERE test_name = :test AND opened_by = :incident AND kind = 'opened' AND COALESCE(cause, '') = '' AND {OF_DEPLOYMENT}
"""

CLOSE = _add(
    "closed",
    f"""NOT EXISTS (SELECT 1 {EARLIER}
    AND (earlier.kind = 'closed' OR (earlier.kind IN ('opened', 'changed') AND earlier.timestamp > :at)))""",
)

CLOSED_AGAIN = _add(
    "closed",
    f"""EXISTS (SELECT 1 {EARLIER} AND earlier.kind = 'closed' AND earlier.timestamp < :at) AND NOT EXISTS (
  SELECT 1 FROM alerts AS same
  WHERE same.test_name = :test AND same.opened_by = :incident AND same.kind = 'closed' AND same.uuid = :run
)""",
)
"""A later recovery: what was decided before it, and is recorded after it, opens no incident."""

ACKNOWLEDGE = _add(
    "acknowledged", f"NOT EXISTS (SELECT 1 {EARLIER} AND earlier.kind IN ('closed', 'acknowledged'))", "said_by", "note"
)

SAY = f"""
INSERT INTO alerts (test_name, opened_by, kind, uuid, timestamp, fingerprint, reasons, said_by, note, deployment)
SELECT opened.test_name, opened.opened_by, :kind, opened.uuid, :at, opened.fingerprint, opened.reasons, :said_by, :note,
  :deployment
FROM alerts AS opened
WHERE opened.test_name = :test AND opened.opened_by = :incident AND opened.kind = 'opened' AND {of_deployment("opened")}
  AND NOT EXISTS (
    SELECT 1 FROM alerts AS earlier
    WHERE earlier.test_name = :test AND earlier.opened_by = :incident AND earlier.kind = :kind
  )
"""

SAY_AGAIN = f"""
UPDATE alerts SET timestamp = :at, said_by = :said_by, note = :note
WHERE test_name = :test AND opened_by = :incident AND kind = :kind AND {OF_DEPLOYMENT} AND timestamp <= :at
"""
"""Of two users at the same moment, the later one counts."""

UNDO = f"""
DELETE FROM alerts WHERE {OF_DEPLOYMENT} AND kind IN ('acknowledged', 'assigned') AND said_by = :by AND timestamp = :at
"""

ASSESSED = f"""
SELECT test_name, opened_by, kind, timestamp, said_by, note FROM alerts
WHERE {OF_DEPLOYMENT} AND kind IN ('opened', 'regression', 'no_regression') AND timestamp >= :since
ORDER BY test_name, opened_by, CASE WHEN kind = 'opened' THEN 0 ELSE 1 END, timestamp, kind
"""
"""The incidents that were opened since a time, and what users said they were: the newest row counts."""


TICK = timedelta(microseconds=1)
ALERTS = frozenset({"opened", "changed"})
"""The kinds of rows that an alert makes. Users make the others, except `closed`."""
ASSESSMENTS = {"regression": True, "no_regression": False}
"""The kinds of rows in which a user assesses an incident, with whether it is a regression."""
ATTEMPTS = 2
"""How many times to try a change if its incident is closed at the same moment."""


@dataclass(frozen=True, slots=True)
class Incident:
    """An open incident: a test that an alert was sent about and that has not recovered."""

    test: str
    opened_by: str
    """The key of the message that opened the incident, which identifies it."""
    opened_at: datetime
    fingerprint: str
    """The current problems, without the numbers."""
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
    cause: str = ""
    """What explains the incident and may explain others; empty if nothing is known."""
    caused_at: datetime | None = None
    """When the cause became known."""
    cost: str = ""
    """What the regression costs a week, or `missing` with the reason; empty if no metric is broken."""
    changed_at: datetime | None = None
    """When the newest alert was decided."""
    assigned_to: str = ""
    """The person it is assigned to; empty for nobody."""
    assigned_by: str = ""
    assigned_at: datetime | None = None
    is_regression: bool | None = None
    """A user's assessment; None if there is none."""
    assessed_by: str = ""

    def document(self) -> dict[str, Any]:
        older_names = {"run_keys": "told_about", "reported": "told"}
        return {older_names.get(name, name): value for name, value in asdict(self).items()}


@dataclass(frozen=True, slots=True)
class ClosedIncident:
    """An incident whose test has recovered."""

    test: str
    run_key: str
    """The key of the run that was good again."""
    closed_at: datetime
    reasons: tuple[str, ...]
    opened_by: str = ""
    """The incident."""


@dataclass(frozen=True, slots=True)
class Assessment:
    """An incident, and a user's assessment of it."""

    test: str
    opened_by: str
    """The incident."""
    opened_at: datetime
    is_regression: bool | None = None
    """None if nobody has assessed it."""
    by: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Incidents:
    """Queries for open incidents, and the changes of an incident."""

    database: Database

    def find_open(self, test: str) -> Incident | None:
        return next(_incidents(self.database.query(OPEN_OF_TEST, test=test)), None)

    def all_open(self) -> dict[str, Incident]:
        return {one.test: one for one in _incidents(self.database.query(ALL_OPEN))}

    def last_closed(self, test: str) -> str:
        """The key of the incident; empty if none was closed."""
        return next((str(row["opened_by"]) for row in self.database.query(LAST_CLOSED, test=test)), "")

    def of_cause(self, cause: str) -> list[Incident]:
        """The open incidents with a cause, the newest member first."""
        found = _incidents(self.database.query(OPEN_OF_CAUSE, cause=cause))
        members = [(one.caused_at, one) for one in found if one.cause == cause and one.caused_at is not None]
        return [one for _, one in sorted(members, key=lambda each: (each[0], each[1].test), reverse=True)]

    def tests_of_cause(self, cause: str, since: datetime) -> set[str]:
        """The tests that broke for a cause since a moment, also those that have recovered."""
        rows = self.database.query(TESTS_OF_CAUSE, cause=cause, since=as_utc(since))
        return {row["test_name"] for row in rows}

    def opened_since(self, moment: datetime) -> dict[str, datetime]:
        """The tests for which an incident was opened since a moment, with the time of the first."""
        rows = self.database.query(OPENED, since=as_utc(moment))
        return {row["test_name"]: row["opened_at"] for row in rows}

    def closed_since(self, moment: datetime) -> list[ClosedIncident]:
        """Newest first."""
        rows = self.database.query(CLOSED, since=as_utc(moment))
        return [ClosedIncident(**{**row, "reasons": tuple(json.loads(row["reasons"]))}) for row in rows]

    def assessed_since(self, moment: datetime) -> list[Assessment]:
        rows = self.database.query(ASSESSED, since=as_utc(moment))
        grouped = groupby(rows, key=lambda row: (row["test_name"], row["opened_by"]))
        incidents = (list(of_incident) for _, of_incident in grouped)
        return [_assessment(one[0], one[-1]) for one in incidents if one[0]["kind"] == "opened"]

    def moment(self, test: str) -> datetime:
        """The time of a decision about a test: now, or just after the last one, if its clock was ahead."""
        newest, now = self.database.query(NEWEST, test=test)[0]["newest"], datetime.now(UTC)
        return now if newest is None else max(now, newest + TICK)

    def report(
        self,
        test: str,
        run_key: str,
        *,
        incident: str = "",
        fingerprint: str,
        reasons: Sequence[str],
        at: datetime | None = None,
        cause: str = "",
        cost: str = "",
    ) -> bool:
        """Record an alert: open the incident with the key of the message, or of the run, or change the open one.

        False if nothing changed: it was recorded before, the test has recovered since the message was decided (`at`),
        this run has no new reason, or the open incident already has this fingerprint.
        """
        key, moment = incident or run_key, as_utc(at or datetime.now(UTC))
        row = {"test": test, "run": run_key, "at": moment, "fingerprint": fingerprint, "cause": cause, "cost": cost}
        for _ in range(ATTEMPTS):
            if self.database.change(OPEN, incident=key, reasons=json.dumps(list(reasons)), **row):
                return True
            found = self.find_open(test)
            if found is None:
                continue
            is_later = at is not None and found.changed_at is not None and moment > found.changed_at
            is_known = run_key in found.run_keys and set(reasons) <= set(found.reported)
            is_known = (is_known or found.fingerprint == fingerprint) and not is_later
            if is_known or self.database.query(OUTDATED, test=test, incident=key, at=moment)[0]["outdated"]:
                return False
            if self._change(found, reasons, row):
                return True
        return False

    def explain(self, incident: Incident, cause: str) -> bool:
        """Give an open incident without a cause the one that other tests have shown. False if it has one."""
        names = {"test": incident.test, "incident": incident.opened_by}
        return self.database.change(EXPLAIN, cause=cause, **names) > 0

    def acknowledge(self, test: str, *, by: str, note: str = "", at: datetime | None = None) -> bool:
        """Record that a user acknowledged the open incident of a test. False if none is open or it already is."""
        incident = self.find_open(test)
        return incident is not None and self._add(
            ACKNOWLEDGE, incident, incident.run_keys[-1], at, said_by=by, note=note
        )

    def assign(self, test: str, to: str, *, by: str, at: datetime | None = None) -> bool:
        """Assign the open incident of a test to a person; empty for nobody. False if none is open."""
        incident = self.find_open(test)
        return incident is not None and self._say("assigned", test, incident.opened_by, by, to, at)

    def undo(self, *, by: str, at: datetime) -> bool:
        """Forget that a user acknowledged or assigned incidents at a moment. False if they did not."""
        return self.database.change(UNDO, by=by, at=as_utc(at)) > 0

    def assess(
        self, test: str, incident: str, *, is_regression: bool, by: str, note: str = "", at: datetime | None = None
    ) -> bool:
        """Record a user's assessment of an incident, open or not. False if there is no such incident."""
        return self._say("regression" if is_regression else "no_regression", test, incident, by, note, at)

    def close(self, test: str, run_key: str, *, incident: str = "", at: datetime | None = None) -> bool:
        """Record a recovery. False if no incident is open, or one was opened or changed after `at`, its decision.

        `incident` is the one that was open then.
        """
        found, moment = self.find_open(test), as_utc(at) if at else self.moment(test)
        if found is None:
            self.database.change(
                CLOSED_AGAIN, test=test, incident=incident, run=run_key, at=moment, fingerprint="", reasons="[]"
            )
            return False
        return self._add(CLOSE, found, run_key, moment)

    def _change(self, found: Incident, reasons: Sequence[str], row: dict[str, Any]) -> bool:
        """Add a change, or merge it into the one that this run has made."""
        kept = {"cause": row["cause"] or found.cause, "cost": row["cost"] or found.cost}
        named = {**row, **kept, "incident": found.opened_by}
        if self.database.change(CHANGE, **named, reasons=json.dumps(list(reasons))):
            return True
        # what was reported before stays reported
        merged = [*reasons, *(one for one in found.reported if one not in reasons)]
        return self.database.change(MERGE, **named, reasons=json.dumps(merged)) > 0

    def _say(self, kind: str, test: str, incident: str, by: str, note: str, at: datetime | None) -> bool:
        """Add the row of this kind, of which an incident has one, or replace its user and content."""
        row = {"kind": kind, "test": test, "incident": incident, "said_by": by, "note": note}
        moment = as_utc(at) if at else self.moment(test)
        return any(self.database.change(one, **row, at=moment) for one in (SAY, SAY_AGAIN))

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
    alerts = [row for row in messages if row["kind"] in ALERTS] or messages
    first, last = alerts[0], alerts[-1]
    nothing: dict[str, Any] = dict.fromkeys(("timestamp", "cause", "said_by", "note", "kind"))
    acknowledged = next((row for row in messages if row["kind"] == "acknowledged"), nothing)
    assigned = next((row for row in reversed(messages) if row["kind"] == "assigned"), nothing)
    caused = next((row for row in reversed(alerts) if row["cause"]), nothing)
    assessed = next((row for row in reversed(messages) if row["kind"] in ASSESSMENTS), nothing)
    return Incident(
        test=first["test_name"],
        opened_by=first["opened_by"],
        opened_at=first["timestamp"],
        fingerprint=last["fingerprint"],
        reasons=tuple(json.loads(last["reasons"])),
        run_keys=tuple(row["uuid"] for row in alerts),
        reported=tuple(dict.fromkeys(reason for row in alerts for reason in json.loads(row["reasons"]))),
        acknowledged_by=acknowledged["said_by"],
        acknowledged_at=acknowledged["timestamp"],
        note=acknowledged["note"] or "",
        cause=caused["cause"] or "",
        cost=next((row["cost"] for row in reversed(alerts) if row["cost"]), ""),
        caused_at=caused["timestamp"],
        changed_at=max(row["timestamp"] for row in alerts),
        assigned_to=assigned["note"] or "",
        assigned_by=assigned["said_by"] or "",
        assigned_at=assigned["timestamp"],
        is_regression=ASSESSMENTS.get(assessed["kind"]),
        assessed_by=assessed["said_by"] or "",
    )


def _assessment(opened: dict[str, Any], newest: dict[str, Any]) -> Assessment:
    incident = Assessment(opened["test_name"], opened["opened_by"], opened["timestamp"])
    if newest["kind"] not in ASSESSMENTS:
        return incident
    is_regression, by, note = ASSESSMENTS[newest["kind"]], newest["said_by"] or "", newest["note"] or ""
    return replace(incident, is_regression=is_regression, by=by, note=note)
