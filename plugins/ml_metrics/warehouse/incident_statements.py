"""The statements that read and change the table `alerts`, whose rows are the changes of incidents."""

from __future__ import annotations

from ml_metrics.warehouse.deployment import OF_DEPLOYMENT, of_deployment


def _open(which: str = "") -> str:
    """Return the query for the rows of open incidents. An incident is open until one of its rows is `closed`."""
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
"""  # noqa: S608  (constants)


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
"""  # noqa: S608  (constants)

TESTS_OF_CAUSE = f"""
SELECT DISTINCT test_name FROM alerts
WHERE {OF_DEPLOYMENT} AND cause = :cause AND timestamp >= :since
"""  # noqa: S608  (constants)

NEWEST = f"SELECT MAX(timestamp) AS newest FROM alerts WHERE test_name = :test AND {OF_DEPLOYMENT}"  # noqa: S608

LAST_CLOSED = f"""
SELECT opened_by FROM alerts
WHERE test_name = :test AND {OF_DEPLOYMENT} AND kind = 'closed'
ORDER BY timestamp DESC, opened_by
LIMIT 1
"""  # noqa: S608  (constants)

CLOSED = f"""
SELECT test_name, opened_by, uuid, timestamp, reasons FROM alerts
WHERE {OF_DEPLOYMENT} AND kind = 'closed' AND reasons <> '[]' AND timestamp >= :since
ORDER BY timestamp DESC, test_name
"""  # noqa: S608  (constants)

OPEN = f"""
INSERT INTO alerts (test_name, opened_by, kind, uuid, timestamp, fingerprint, reasons, cause, cost, deployment)
SELECT :test, :incident, 'opened', :run, :at, :fingerprint, :reasons, :cause, :cost, :deployment
FROM (SELECT 1 AS one) AS alone
WHERE NOT EXISTS (SELECT 1 FROM alerts AS earlier WHERE earlier.test_name = :test AND earlier.opened_by = :incident)
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
  )
"""  # noqa: S608  (constants)

OUTDATED = f"""
SELECT COUNT(*) AS outdated FROM alerts
WHERE test_name = :test AND {OF_DEPLOYMENT} AND kind = 'closed' AND (timestamp >= :at OR opened_by = :incident)
"""  # noqa: S608  (constants)
"""A test that recovered after a message was decided is not changed by that message any more."""

CHANGE = f"""
INSERT INTO alerts (test_name, opened_by, kind, uuid, timestamp, fingerprint, reasons, cause, cost, deployment)
SELECT :test, :incident, 'changed', :run, :at, :fingerprint, :reasons, :cause, :cost, :deployment
FROM (SELECT 1 AS one) AS alone
WHERE NOT EXISTS (
  SELECT 1 FROM alerts AS earlier
  WHERE earlier.test_name = :test AND earlier.opened_by = :incident AND {of_deployment("earlier")}
    AND (earlier.kind = 'closed' OR (earlier.kind = 'changed' AND earlier.uuid = :run))
)
"""  # noqa: S608  (constants)

MERGE = """
UPDATE alerts
SET timestamp = CASE WHEN timestamp < :at THEN :at ELSE timestamp END, fingerprint = :fingerprint, reasons = :reasons,
  cause = :cause, cost = :cost
WHERE test_name = :test AND opened_by = :incident AND kind = 'changed' AND uuid = :run
"""
"""The key of the table has room for one change of an incident by each run."""

CLOSE = f"""
INSERT INTO alerts (test_name, opened_by, kind, uuid, timestamp, fingerprint, reasons, deployment)
SELECT :test, :incident, 'closed', :run, :at, :fingerprint, :reasons, :deployment
FROM (SELECT 1 AS one) AS alone
WHERE NOT EXISTS (
  SELECT 1 FROM alerts AS earlier
  WHERE earlier.test_name = :test AND earlier.opened_by = :incident AND {of_deployment("earlier")}
    AND (earlier.kind = 'closed' OR (earlier.kind IN ('opened', 'changed') AND earlier.timestamp > :at))
)
"""  # noqa: S608  (constants)

CLOSED_AGAIN = f"""
INSERT INTO alerts (test_name, opened_by, kind, uuid, timestamp, fingerprint, reasons, deployment)
SELECT :test, :incident, 'closed', :run, :at, '', '[]', :deployment
FROM (SELECT 1 AS one) AS alone
WHERE EXISTS (
  SELECT 1 FROM alerts AS earlier
  WHERE earlier.test_name = :test AND earlier.opened_by = :incident AND {of_deployment("earlier")}
    AND earlier.kind = 'closed' AND earlier.timestamp < :at
) AND NOT EXISTS (
  SELECT 1 FROM alerts AS same
  WHERE same.test_name = :test AND same.opened_by = :incident AND same.kind = 'closed' AND same.uuid = :run
)
"""  # noqa: S608  (constants)
"""A later recovery: what was decided before it, and is recorded after it, opens no incident."""

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
"""  # noqa: S608  (constants)

SAY_AGAIN = f"""
UPDATE alerts SET timestamp = :at, said_by = :said_by, note = :note
WHERE test_name = :test AND opened_by = :incident AND kind = :kind AND {OF_DEPLOYMENT} AND timestamp <= :at
"""  # noqa: S608  (constants)
"""Of two users at the same moment, the later one counts."""

ASSESSED = f"""
SELECT test_name, opened_by, kind, timestamp, said_by, note FROM alerts
WHERE {OF_DEPLOYMENT} AND kind IN ('opened', 'regression', 'no_regression') AND timestamp >= :since
ORDER BY test_name, opened_by, CASE WHEN kind = 'opened' THEN 0 ELSE 1 END, timestamp, kind
"""  # noqa: S608  (constants)
"""The incidents that were opened since a time, and what users said they were: the newest row counts."""
