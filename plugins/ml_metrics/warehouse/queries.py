"""Every query and every small statement, written once in the SQL that SQLite, PostgreSQL and BigQuery share.

They are constants. Values travel beside them as parameters (`:name`); nothing is ever formatted into a query.
A run's place in history is the time at which its workload stopped, `job_history.timestamp`; a metric's own
`timestamp` is bounded as well, only so that BigQuery reads no older partitions than it must.
"""

WHERE_TO_BEGIN = """
SELECT 'clean' AS kind, COUNT(*) AS runs, MIN(clean.timestamp) AS oldest
FROM (
  SELECT timestamp
  FROM job_history
  WHERE test_name = :test AND uuid <> :run AND timestamp >= :earliest AND timestamp < :before
    AND job_status = 'success' AND (verdict IS NULL OR verdict <> 'fail')
  ORDER BY timestamp DESC
  LIMIT :window
) AS clean
UNION ALL
SELECT 'any' AS kind, COUNT(*) AS runs, MIN(newest.timestamp) AS oldest
FROM (
  SELECT timestamp
  FROM job_history
  WHERE test_name = :test AND uuid <> :run AND timestamp < :before
  ORDER BY timestamp DESC
  LIMIT :recent
) AS newest
UNION ALL
SELECT 'first' AS kind, COUNT(*) AS runs, MIN(first.timestamp) AS oldest
FROM (
  SELECT timestamp
  FROM job_history
  WHERE test_name = :test AND uuid <> :run AND timestamp >= :earliest AND timestamp < :before
  ORDER BY timestamp
  LIMIT 1
) AS first
"""
"""How far back to read: `window` runs that did not fail hold, as a rule, `window` good values of every metric."""

HISTORY = """
SELECT uuid, timestamp, metric_name, metric_value, job_status, verdict
FROM (
  SELECT uuid, timestamp, metric_name, metric_value, job_status, verdict, good,
    ROW_NUMBER() OVER (PARTITION BY metric_name ORDER BY timestamp DESC, uuid DESC) AS place,
    ROW_NUMBER() OVER (PARTITION BY metric_name, good ORDER BY timestamp DESC, uuid DESC) AS place_among_alike
  FROM (
    SELECT
      job.uuid, job.timestamp, job.job_status, metric.verdict, metric.metric_value,
      COALESCE(metric.metric_name, '') AS metric_name,
      CASE WHEN job.job_status = 'success' AND metric.metric_value IS NOT NULL
        AND (metric.verdict IS NULL OR metric.verdict <> 'fail') THEN 1 ELSE 0 END AS good
    FROM job_history AS job
    LEFT JOIN metric_history AS metric
      ON metric.uuid = job.uuid AND metric.test_name = :test AND metric.timestamp >= :scan_from
    WHERE job.test_name = :test AND job.uuid <> :run AND job.timestamp >= :oldest AND job.timestamp < :before
  ) AS past
) AS ranked
WHERE place <= :recent OR (good = 1 AND place_among_alike <= :window)
ORDER BY metric_name, timestamp, uuid
"""
"""The newest `recent` values of every metric, and the newest `window` that may be in a baseline.

A run without any metric is there too, under the name of none: that it failed may matter.
"""

OLDER_HISTORY = """
SELECT uuid, timestamp, metric_name, metric_value, job_status, verdict
FROM (
  SELECT
    job.uuid, job.timestamp, metric.metric_name, metric.metric_value, job.job_status, metric.verdict,
    ROW_NUMBER() OVER (PARTITION BY metric.metric_name ORDER BY job.timestamp DESC, job.uuid DESC) AS place
  FROM metric_history AS metric
  CROSS JOIN job_history AS job
  WHERE job.uuid = metric.uuid
    AND metric.test_name = :test AND metric.metric_name IN :metrics AND metric.timestamp >= :scan_from
    AND metric.metric_value IS NOT NULL AND (metric.verdict IS NULL OR metric.verdict <> 'fail')
    AND job.test_name = :test AND job.uuid <> :run AND job.job_status = 'success'
    AND job.timestamp >= :earliest AND job.timestamp < :oldest
) AS ranked
WHERE place <= :window
ORDER BY metric_name, timestamp, uuid
"""
"""The same for metrics that only some runs have, or that were broken in many: their good values lie farther back.

The cross join tells SQLite to begin with the few rows of these metrics, not with every run of the test.
"""

PREVIOUS_RUN = """
SELECT * FROM job_history
WHERE test_name = :test AND uuid <> :run AND timestamp < :before
ORDER BY timestamp DESC, uuid DESC
LIMIT 1
"""

RUNS = """
SELECT * FROM job_history
WHERE test_name = :test
ORDER BY timestamp DESC, uuid DESC
LIMIT :limit
"""

METRIC_VALUES = """
SELECT
  job.uuid, job.timestamp, metric.metric_value, metric.metric_lower_bound, metric.metric_upper_bound,
  job.job_status, metric.verdict, metric.rule, metric.baseline_points, metric.step
FROM job_history AS job
JOIN metric_history AS metric ON metric.uuid = job.uuid
WHERE job.test_name = :test AND metric.test_name = :test AND metric.metric_name = :metric
ORDER BY job.timestamp DESC, job.uuid DESC
LIMIT :limit
"""

METRICS_OF_RUN = """
SELECT * FROM metric_history
WHERE uuid = :run
ORDER BY metric_name
"""

TESTS = """
SELECT latest.test_name, latest.runs, latest.timestamp, latest.job_status, latest.verdict, latest.owner,
  CASE WHEN alarmed.test_name IS NULL THEN 0 ELSE 1 END AS alert_open
FROM (
  SELECT test_name, timestamp, job_status, verdict, owner,
    COUNT(*) OVER (PARTITION BY test_name) AS runs,
    ROW_NUMBER() OVER (PARTITION BY test_name ORDER BY timestamp DESC, uuid DESC) AS place
  FROM job_history
) AS latest
LEFT JOIN (
  SELECT DISTINCT test_name FROM alerts
  WHERE opened_by NOT IN (SELECT opened_by FROM alerts WHERE kind = 'closed')
) AS alarmed ON alarmed.test_name = latest.test_name
WHERE latest.place = 1
ORDER BY latest.test_name
"""

ACCEPTED = """
SELECT * FROM acceptances
WHERE test_name = :test
ORDER BY timestamp, metric_name, accepted_at
"""

ACCEPT = """
INSERT INTO acceptances
  (test_name, metric_name, uuid, timestamp, metric_value, accepted_at, accepted_by, reason)
SELECT job.test_name, metric.metric_name, job.uuid, job.timestamp, metric.metric_value,
  :accepted_at, :accepted_by, :reason
FROM job_history AS job
JOIN metric_history AS metric ON metric.uuid = job.uuid
WHERE job.uuid = :run AND metric.metric_name = :metric
  AND NOT EXISTS (
    SELECT 1 FROM acceptances AS earlier WHERE earlier.uuid = :run AND earlier.metric_name = :metric
  )
"""

OPEN_INCIDENT = """
SELECT
  message.opened_by, message.kind, message.uuid, message.timestamp, message.fingerprint, message.reasons,
  message.said_by, message.note
FROM alerts AS message
WHERE message.test_name = :test AND message.opened_by NOT IN (
  SELECT ended.opened_by FROM alerts AS ended WHERE ended.test_name = :test AND ended.kind = 'closed'
)
ORDER BY message.opened_by, message.timestamp, CASE WHEN message.kind = 'opened' THEN 0 ELSE 1 END
"""
"""The messages of the incident that is open; an incident is open until one of its messages is `closed`."""

OPEN_AN_INCIDENT = """
INSERT INTO alerts (test_name, opened_by, kind, uuid, timestamp, fingerprint, reasons)
SELECT :test, :run, 'opened', :run, :at, :fingerprint, :reasons
FROM (SELECT 1 AS one) AS alone
WHERE NOT EXISTS (SELECT 1 FROM alerts AS told WHERE told.test_name = :test AND told.opened_by = :run)
  AND NOT EXISTS (
    SELECT 1 FROM alerts AS told
    WHERE told.test_name = :test AND told.opened_by NOT IN (
      SELECT ended.opened_by FROM alerts AS ended WHERE ended.test_name = :test AND ended.kind = 'closed'
    )
  )
"""

ADD_TO_AN_INCIDENT = """
INSERT INTO alerts (test_name, opened_by, kind, uuid, timestamp, fingerprint, reasons)
SELECT :test, :incident, :kind, :run, :at, :fingerprint, :reasons
FROM (SELECT 1 AS one) AS alone
WHERE NOT EXISTS (
  SELECT 1 FROM alerts AS told
  WHERE told.test_name = :test AND told.opened_by = :incident
    AND (told.kind = 'closed' OR (told.kind = :kind AND told.uuid = :run))
)
"""

ALARMED_TESTS = """
SELECT DISTINCT test_name FROM alerts
WHERE opened_by NOT IN (SELECT opened_by FROM alerts WHERE kind = 'closed')
ORDER BY test_name
"""

ACKNOWLEDGE = """
INSERT INTO alerts (test_name, opened_by, kind, uuid, timestamp, fingerprint, reasons, said_by, note)
SELECT :test, :incident, 'acknowledged', :run, :at, :fingerprint, :reasons, :said_by, :note
FROM (SELECT 1 AS one) AS alone
WHERE NOT EXISTS (
  SELECT 1 FROM alerts AS told
  WHERE told.test_name = :test AND told.opened_by = :incident AND told.kind IN ('closed', 'acknowledged')
)
"""

RECORD_DELIVERY = """
INSERT INTO deliveries
  (message, channel, state, timestamp, test_name, uuid, occasion, owner, recipients, subject, reasons, attempts, detail)
SELECT :message, :channel, :state, :at, :test, :run, :occasion, :owner, :recipients, :subject, :reasons, :attempts,
  :detail
FROM (SELECT 1 AS one) AS alone
WHERE NOT EXISTS (
  SELECT 1 FROM deliveries AS known
  WHERE known.message = :message AND known.channel = :channel AND known.state = :state
)
"""

DELIVERIES = """
SELECT * FROM deliveries
WHERE timestamp >= :since AND (:test = '' OR test_name = :test)
ORDER BY timestamp DESC, message, channel, state
LIMIT :limit
"""

WAITING = """
SELECT * FROM deliveries AS one
WHERE one.timestamp >= :since AND one.state IN ('held', 'kept') AND one.uuid <> '' AND NOT EXISTS (
  SELECT 1 FROM deliveries AS later
  WHERE later.message = one.message AND later.channel = one.channel AND later.timestamp >= :since
    AND later.state IN ('summarised', 'delivered')
)
ORDER BY one.timestamp, one.message, one.channel
"""
"""What nobody has been told yet: held for a digest, or kept because its channel did not take it."""

TOLD_SINCE = """
SELECT COUNT(DISTINCT message) AS messages FROM deliveries
WHERE timestamp >= :since AND owner = :owner AND state = 'delivered' AND uuid <> ''
"""
