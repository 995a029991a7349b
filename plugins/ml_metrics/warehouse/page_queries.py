"""The queries behind the dashboard's pages, in the same SQL as `queries.py`. A page asks a constant number of them."""

RUNS_BETWEEN = """
SELECT uuid, test_name, NULLIF(dag_id, test_name) AS dag_id, timestamp, job_status, verdict, failure_reason, goodput
FROM job_history
WHERE timestamp >= :since AND timestamp < :until
ORDER BY timestamp
"""
"""In the order of an index that holds all of it. A DAG is called as its test nearly always: not to be sent twice."""

STANDINGS = """
SELECT
  job.uuid, job.test_name, job.dag_id, job.timestamp, job.job_status, job.verdict, job.failure_reason, job.goodput,
  job.owner, job.framework_version, job.accelerator, newest.last_good
FROM (
  SELECT test_name, MAX(timestamp) AS last_run,
    MAX(CASE WHEN job_status = 'success' AND (verdict IS NULL OR verdict <> 'fail') THEN timestamp END) AS last_good
  FROM job_history
  GROUP BY test_name
) AS newest
JOIN job_history AS job ON job.test_name = newest.test_name AND job.timestamp = newest.last_run
ORDER BY job.test_name, job.uuid
"""
"""The newest run of every test, and when it was last well."""

BROKEN_BETWEEN = """
SELECT uuid, metric_name, metric_value, metric_lower_bound, metric_upper_bound, verdict
FROM metric_history
WHERE verdict IN ('fail', 'missing', 'non_finite') AND timestamp >= :since AND timestamp < :until
ORDER BY uuid, metric_name
"""

OPEN_INCIDENTS = """
SELECT message.test_name, message.opened_by, MIN(message.timestamp) AS timestamp,
  MAX(message.said_by) AS said_by, MAX(message.note) AS note
FROM alerts AS message
WHERE NOT EXISTS (
  SELECT 1 FROM alerts AS ended
  WHERE ended.test_name = message.test_name AND ended.opened_by = message.opened_by AND ended.kind = 'closed'
)
GROUP BY message.test_name, message.opened_by
ORDER BY message.test_name, message.opened_by
"""

QUARANTINES = """
SELECT test_name, timestamp, until, reason, said_by
FROM (
  SELECT test_name, timestamp, until, reason, said_by,
    ROW_NUMBER() OVER (PARTITION BY test_name ORDER BY timestamp DESC) AS place
  FROM quarantines
) AS newest
WHERE place = 1
ORDER BY test_name
"""

QUARANTINE = """
INSERT INTO quarantines (test_name, timestamp, until, reason, said_by)
VALUES (:test, :at, :until, :reason, :said_by)
"""

RUNS_OF_TEST = """
SELECT * FROM job_history
WHERE test_name = :test AND timestamp >= :since AND timestamp < :until
ORDER BY timestamp DESC, uuid DESC
LIMIT :limit
"""

METRICS_OF_TEST = """
SELECT
  metric.uuid, metric.metric_name, metric.metric_value, metric.metric_lower_bound, metric.metric_upper_bound,
  metric.verdict, metric.rule, metric.reference, metric.spread
FROM job_history AS job
JOIN metric_history AS metric ON metric.uuid = job.uuid
WHERE job.test_name = :test AND job.timestamp >= :since AND job.timestamp < :until
  AND metric.test_name = :test AND metric.timestamp >= :scan_from AND metric.timestamp < :scan_to
ORDER BY metric.metric_name
"""

COMPARED = """
SELECT
  job.uuid, job.test_name, job.dag_id, job.timestamp, metric.metric_name, metric.metric_value,
  metric.metric_lower_bound, metric.metric_upper_bound, metric.verdict
FROM job_history AS job
JOIN metric_history AS metric ON metric.uuid = job.uuid
WHERE job.test_name IN :tests AND job.timestamp >= :since AND job.timestamp < :until
  AND metric.test_name IN :tests AND metric.timestamp >= :scan_from AND metric.timestamp < :scan_to
  AND metric.metric_name IN :metrics
ORDER BY metric.metric_name, job.test_name, job.timestamp, job.uuid
LIMIT :limit
"""

METRIC_NAMES = """
SELECT DISTINCT metric_name
FROM metric_history
WHERE test_name IN :tests AND timestamp >= :since AND timestamp < :until
ORDER BY metric_name
"""

RUN = """
SELECT * FROM job_history
WHERE uuid = :run
"""

RUN_OF_DAG = """
SELECT * FROM job_history
WHERE dag_id = :dag AND run_id = :run
ORDER BY timestamp DESC, uuid
LIMIT 1
"""

TEST_OF_DAG = """
SELECT test_name FROM job_history
WHERE dag_id = :dag OR test_name = :dag
ORDER BY timestamp DESC
LIMIT 1
"""

LAST_GOOD_RUN = """
SELECT * FROM job_history
WHERE test_name = :test AND uuid <> :run AND timestamp < :before
  AND job_status = 'success' AND (verdict IS NULL OR verdict <> 'fail')
ORDER BY timestamp DESC, uuid DESC
LIMIT 1
"""

METADATA_OF_RUN = """
SELECT metadata_key, metadata_value FROM metadata_history
WHERE uuid = :run
ORDER BY metadata_key
"""
