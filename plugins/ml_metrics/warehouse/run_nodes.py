"""The nodes that runs were on, as their metadata state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ml_metrics.values import as_utc
from ml_metrics.warehouse.deployment import of_deployment

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from ml_metrics.warehouse.database import Database

MAX_LENGTH = 20_000
"""The characters of all nodes of one run."""

VALUE = f"""(
  SELECT MAX(SUBSTR(metadata_value, 1, {MAX_LENGTH})) FROM metadata_history
  WHERE metadata_history.uuid = job.uuid AND metadata_key = '{{key}}'
    AND (metadata_history.timestamp IS NULL
      OR (metadata_history.timestamp >= :since AND metadata_history.timestamp < :until))
)"""  # noqa: S608  (constants)
"""Of one run: a subquery, because PostgreSQL would read the whole table for a join."""

NODES = f"""
SELECT job.uuid AS run_key, {VALUE.format(key="node")} AS node, {VALUE.format(key="nodes")} AS nodes
FROM job_history AS job
WHERE {of_deployment("job")} AND job.test_name IN :tests AND job.timestamp >= :since AND job.timestamp < :until
  AND job.trial IS NULL
ORDER BY job.timestamp DESC, job.uuid
LIMIT :limit
"""  # noqa: S608  (constants)


def nodes_of_runs(
    database: Database, tests: Sequence[str], since: datetime, until: datetime, limit: int
) -> dict[str, tuple[str, ...]]:
    """Return the nodes of the newest runs of some tests, by run key. Runs whose node is unknown are left out."""
    if not tests:
        return {}
    span = {"since": as_utc(since), "until": as_utc(until)}
    rows = database.query(NODES, tests=list(tests), limit=limit, **span)
    nodes = {row["run_key"]: _nodes(row["node"] or "", row["nodes"] or "") for row in rows}
    return {key: each for key, each in nodes.items() if each}


def _nodes(first: str, every: str) -> tuple[str, ...]:
    """Return the nodes of one run. A list without the first host's node is a text of the workload."""
    named = tuple(sorted({name for part in every.split(",") if (name := part.strip())}))
    return named if first in named else tuple(filter(None, [first]))
