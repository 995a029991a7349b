"""Tables as a year of nightly tests leaves them, written by the database itself in seconds."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

import sqlalchemy as sa

END = datetime(2026, 6, 1, tzinfo=UTC)

KEY = "CAST(CAST(MD5(test || '-' || day) AS uuid) AS text)"
RUNS = """
FROM (
  SELECT test, day FROM generate_series(1, :tests) AS test, generate_series(1, :days) AS day ORDER BY day DESC, test
) AS runs
"""
"""In the order of their time, in which real rows are written."""
LINK = "'https://console.example.com/kubernetes/pod/' || REPEAT(MD5(test || ''), 3)"
FILL = (
    f"""
INSERT INTO job_history (uuid, test_name, test_type, accelerator, framework_version, job_status, num_failures,
  job_duration_sec, timestamp, stackdriver_logs_link, kubernetes_workload_link, logs_download_command, image, dag_id,
  run_id, owner, goodput, verdict, trial, deployment)
SELECT {KEY}, 'test-' || test, 'func', 'cpu', 'x', CASE WHEN (test + day) % 50 = 0 THEN 'failure' ELSE 'success' END, 0,
  600, CAST(:end AS timestamptz) - day * interval '1 day' + test * interval '1 second', {LINK}, {LINK}, {LINK},
  'registry.example.com/team/image:' || day, 'test-' || test, 'scheduled__' || day, 'team-' || test % 20,
  97.5, CASE WHEN (test + day) % 40 = 0 THEN 'fail' ELSE 'pass' END,
  CASE WHEN (test + day) % 100 = 0 THEN 'image' END, 'local'
{RUNS}
""",
    f"""
INSERT INTO metric_history (uuid, test_name, timestamp, metric_name, metric_value, metric_lower_bound, verdict, rule,
  baseline_points, trial, deployment)
SELECT {KEY}, 'test-' || test, CAST(:end AS timestamptz) - day * interval '1 day' + test * interval '1 second',
  'metric_' || metric, 0.5, 0.4, CASE WHEN (test + day) % 40 = 0 AND metric = 1 THEN 'fail' ELSE 'pass' END,
  'greater than 5 % below the level', 100, CASE WHEN (test + day) % 100 = 0 THEN 'image' END, 'local'
{RUNS.rstrip()}, generate_series(1, :metrics) AS metric
""",
    f"INSERT INTO metadata_history SELECT {KEY}, 'image', 'sha256:' || MD5(test || '') {RUNS}",
    f"""
INSERT INTO curve_history (uuid, tag, test_name, timestamp, curve, deployment)
SELECT {KEY}, 'loss', 'test-' || test, CAST(:end AS timestamptz) - day * interval '1 day',
  '{{"steps": [0, 1], "values": [1.0, 0.5], "non_finite": []}}', 'local'
{RUNS}
""",
    """
INSERT INTO messages (message, deployment, uuid, test_name, owner, occasion, content_hash, state, timestamp, attempts,
  next_attempt, held_because, recipients, subject, reasons, document, content, channels, lease, lease_until)
SELECT test || '-' || day, 'local', CAST(CAST(MD5(test || '-' || day) AS uuid) AS text), 'test-' || test, 'team',
  'broken', 'h', CASE WHEN day = 1 AND test < 3 THEN 'pending' ELSE 'sent' END,
  CAST(:end AS timestamptz) - day * interval '1 day', 1,
  CAST(:end AS timestamptz), '', '[]', 'subject', '[]', '', '', '{}', '', CAST(:end AS timestamptz)
FROM generate_series(1, :tests) AS test, generate_series(1, :days) AS day WHERE (test + day) % 20 = 0
""",
    """
INSERT INTO alerts (test_name, opened_by, kind, uuid, timestamp, fingerprint, reasons, deployment)
SELECT 'test-' || test, 'm-' || day, kind, 'u', CAST(:end AS timestamptz) - day * interval '1 day', 'f', '[]', 'local'
FROM generate_series(1, :tests) AS test, generate_series(1, :days) AS day,
  (VALUES ('opened'), ('closed')) AS kinds (kind)
WHERE (test + day) % 40 = 0 AND NOT (kind = 'closed' AND day < 3)
""",
    """
INSERT INTO acceptances (test_name, metric_name, uuid, timestamp, metric_value, accepted_at, accepted_by, reason,
  deployment)
SELECT 'test-' || test, 'metric_1', 'u' || day, CAST(:end AS timestamptz) - day * interval '1 day', 0.5,
  CAST(:end AS timestamptz), 'jane', 'r', 'local'
FROM generate_series(1, :tests) AS test, generate_series(50, :days, 100) AS day
""",
)


@dataclass(frozen=True, slots=True)
class Year:
    """How much is written."""

    tests: int
    days: int = 365
    metrics: int = 5


def fill(address: str, year: Year) -> None:
    """Fill the empty tables of a warehouse in PostgreSQL, and let it count its rows."""
    engine = sa.create_engine(address)
    parameters = {"tests": year.tests, "days": year.days, "metrics": year.metrics, "end": END}
    with engine.begin() as connection:
        for statement in FILL:
            used = {name: value for name, value in parameters.items() if f":{name}" in statement}
            connection.execute(sa.text(statement), used)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(sa.text("VACUUM ANALYZE"))
    engine.dispose()
