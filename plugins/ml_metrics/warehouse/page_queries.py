"""The queries for metrics on pages. Each has a limit: how many metrics a run has is up to its workload."""

from __future__ import annotations

from ml_metrics.warehouse.deployment import OF_DEPLOYMENT, of_deployment
from ml_metrics.warehouse.tables import METRIC_HISTORY, VERDICT_IS_BROKEN

MOST_BROKEN, MOST_BROKEN_OF_TEST = 25, 5000
"""How many broken metrics of one run, and of one test, a page shows."""
MOST_NAMES, MOST_SCANNED = 20_000, 100_000
"""How many names of metrics a page lists, and how many rows are read for them."""
MOST_VALUES = 200_000

COLUMNS = """job.uuid AS run_key, job.test_name AS test, job.dag_id, job.timestamp, job.job_status,
  metric.metric_name AS metric, metric.metric_value AS value, metric.metric_lower_bound AS lower,
  metric.metric_upper_bound AS upper, metric.verdict AS outcome, metric.rule, metric.baseline_points, metric.reference,
  metric.spread, metric.step, metric.timestamp AS written_at, metric.condition,
  metric.unit, metric.better, metric.non_finite, metric.severity, job.trial"""
"""The fields of a `StoredMetric`."""

ALL_COLUMNS = ", ".join(METRIC_HISTORY.names)

METRICS = f"""
SELECT {COLUMNS}
FROM job_history AS job
JOIN metric_history AS metric ON metric.uuid = job.uuid"""  # noqa: S608

METRIC_AT_PLACE = f"""{OF_DEPLOYMENT} AND uuid = :run AND test_name = :test
  AND timestamp >= :scan_from AND timestamp < :scan_to"""
"""Selects the rows of one run whose place is known: BigQuery reads one or two partitions."""

AT_PLACE = f"""{of_deployment("job")} AND job.uuid = :run AND job.test_name = :test
  AND job.timestamp >= :since AND job.timestamp < :until
  AND metric.uuid = :run AND metric.test_name = :test
  AND metric.timestamp >= :scan_from AND metric.timestamp < :scan_to"""

PAGE_OF_RUN = f"""{METRICS}
WHERE {AT_PLACE}
ORDER BY CASE WHEN {VERDICT_IS_BROKEN.replace("verdict", "metric.verdict")} THEN 0 WHEN metric.rule IS NOT NULL THEN 1
  ELSE 2 END, metric.metric_name
LIMIT :limit OFFSET :skipped
"""
"""Broken metrics first, then those with a condition: they are on the first page of a run that has many others."""

COUNT_OF_RUN = f"""
SELECT COUNT(*) AS metrics FROM metric_history
WHERE {METRIC_AT_PLACE}
"""  # noqa: S608  (constants)

NAMED_OF_RUN = f"""{METRICS}
WHERE {AT_PLACE} AND metric.metric_name IN :metrics
"""

ONLY_IN = f"""
SELECT metric_name FROM metric_history
WHERE {METRIC_AT_PLACE}
  AND metric_name NOT IN (
    SELECT other.metric_name FROM metric_history AS other
    WHERE {of_deployment("other")} AND other.uuid = :other AND other.test_name = :test
      AND other.timestamp >= :other_from AND other.timestamp < :other_to
  )
ORDER BY metric_name
LIMIT :limit
"""  # noqa: S608  (constants)

OF_TEST = f"""{METRICS}
WHERE {of_deployment("job")} AND job.test_name = :test AND job.timestamp >= :since AND job.timestamp < :until
  AND metric.test_name = :test AND metric.timestamp >= :scan_from AND metric.timestamp < :scan_to
  AND metric.metric_name IN :metrics
ORDER BY metric.metric_name
LIMIT :limit
"""

NAMES_OF_TEST = f"""
SELECT metric, MAX(judged) AS judged, MAX(other_than_zero) AS other_than_zero, MAX(regular) AS regular
FROM (
  SELECT * FROM (
    SELECT metric_name AS metric, CASE WHEN rule IS NULL THEN 0 ELSE 1 END AS judged,
      CASE WHEN metric_value = 0 THEN 0 ELSE 1 END AS other_than_zero,
      CASE WHEN trial IS NULL THEN 1 ELSE 0 END AS regular
    FROM metric_history
    WHERE {OF_DEPLOYMENT} AND uuid = :newest AND test_name = :test
      AND timestamp >= :newest_from AND timestamp < :newest_to
    ORDER BY 2 DESC, 1
    LIMIT :limit
  ) AS newest
  UNION ALL
  SELECT * FROM (
    SELECT metric_name AS metric, CASE WHEN rule IS NULL THEN 0 ELSE 1 END AS judged,
      CASE WHEN metric_value = 0 THEN 0 ELSE 1 END AS other_than_zero,
      CASE WHEN trial IS NULL THEN 1 ELSE 0 END AS regular
    FROM metric_history
    WHERE {OF_DEPLOYMENT} AND test_name = :test AND timestamp >= :scan_from AND timestamp < :scan_to
    LIMIT :scanned
  ) AS earlier
) AS found
GROUP BY metric
ORDER BY 2 DESC, 1
LIMIT :limit
"""  # noqa: S608  (constants)
"""All names of the newest run, and those of earlier runs as far as they are read. A missing value is not zero."""

OF_TESTS = f"""{METRICS}
WHERE {of_deployment("job")} AND job.test_name IN :tests AND job.timestamp >= :since AND job.timestamp < :until
  AND metric.test_name IN :tests AND metric.timestamp >= :scan_from AND metric.timestamp < :scan_to
  AND metric.metric_name IN :metrics
  AND job.trial IS NULL
ORDER BY metric.metric_name, job.test_name, job.timestamp, job.uuid
LIMIT :limit
"""

NAMES = f"""
SELECT DISTINCT metric_name
FROM (
  SELECT metric_name FROM metric_history
  WHERE {OF_DEPLOYMENT} AND test_name IN :tests AND timestamp >= :since AND timestamp < :until
    AND trial IS NULL
  LIMIT :scanned
) AS found
ORDER BY metric_name
LIMIT :limit
"""  # noqa: S608  (constants)

BROKEN = f"""
SELECT {COLUMNS}
FROM (
  SELECT * FROM (
    SELECT {ALL_COLUMNS},
      ROW_NUMBER() OVER (
        PARTITION BY uuid ORDER BY CASE verdict WHEN 'non_finite' THEN 1 ELSE 0 END, metric_name
      ) AS place_in_run
    FROM metric_history
    WHERE {VERDICT_IS_BROKEN} AND timestamp >= :scan_from AND timestamp < :scan_to
  ) AS of_runs
  WHERE place_in_run <= :most
) AS metric
CROSS JOIN job_history AS job
WHERE job.uuid = metric.uuid AND {of_deployment("job")} AND job.timestamp >= :since AND job.timestamp < :until
  AND job.trial IS NULL
ORDER BY job.uuid, metric.metric_name
"""  # noqa: S608  (constants)
"""The cross join makes SQLite begin with the few broken metrics, which have an index of their own.

A metric that is finite comes before others, since the letter of a run depends on whether there is one."""

BROKEN_OF_TEST = f"""
SELECT {COLUMNS}
FROM (
  SELECT * FROM (
    SELECT {ALL_COLUMNS},
      ROW_NUMBER() OVER (
        PARTITION BY uuid ORDER BY CASE verdict WHEN 'non_finite' THEN 1 ELSE 0 END, metric_name
      ) AS place_in_run
    FROM metric_history
    WHERE {VERDICT_IS_BROKEN} AND timestamp >= :scan_from AND timestamp < :scan_to AND test_name = :test
  ) AS of_runs
  WHERE place_in_run <= :most
) AS metric
CROSS JOIN job_history AS job
WHERE job.uuid = metric.uuid AND {of_deployment("job")} AND job.timestamp >= :since AND job.timestamp < :until
ORDER BY job.timestamp DESC, job.uuid, metric.metric_name
LIMIT :limit
"""  # noqa: S608  (constants)
