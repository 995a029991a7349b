"""The runs of older versions, whose rows name no deployment: a deployment claims those that are provably its own.

The key of a run is made from the deployment, the DAG and the run in Airflow, so a deployment recognises its runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ml_metrics.model import Run

if TYPE_CHECKING:
    from typing import Any

    from ml_metrics.warehouse.database import Database

PAGE_RUNS = 500

WITHOUT_DEPLOYMENT = """
SELECT uuid, test_name, dag_id, run_id FROM job_history
WHERE deployment IS NULL AND uuid > :after
ORDER BY uuid
LIMIT :page
"""

CLAIM = "UPDATE {table} SET deployment = :deployment WHERE deployment IS NULL AND {key} IN :runs"

CLAIMED_BY = {
    "metric_history": "uuid",
    "curve_history": "uuid",
    "acceptances": "uuid",
    "alerts": "opened_by",
    "job_history": "uuid",
}
"""The run key in each table. The runs come last: a claim that was interrupted finds them again."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The result of a claim."""

    claimed: int = 0
    """The number of runs of this deployment."""
    left: int = 0
    """The number of runs that still belong to every deployment: of others, or imported."""


def claim_runs(database: Database) -> Claim:
    """Give the runs of a deployment, with what was decided about them, to the deployment alone."""
    claimed = left = 0
    after = ""
    while rows := database.query(WITHOUT_DEPLOYMENT, after=after, page=PAGE_RUNS):
        own = [row["uuid"] for row in rows if _is_of(row, database.deployment)]
        for table, column in CLAIMED_BY.items() if own else ():
            database.change(CLAIM.format(table=table, key=column), runs=own)
        claimed, left = claimed + len(own), left + len(rows) - len(own)
        after = rows[-1]["uuid"]
    return Claim(claimed, left)


def _is_of(row: dict[str, Any], deployment: str) -> bool:
    if not row["dag_id"] or not row["run_id"]:
        return False
    return bool(Run(row["test_name"], row["dag_id"], row["run_id"], deployment).key == row["uuid"])
