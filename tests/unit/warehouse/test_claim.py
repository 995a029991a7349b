"""Which of the runs that no deployment has a deployment claims."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from ml_metrics.core.model import Run
from ml_metrics.warehouse import RunRecord
from ml_metrics.warehouse import warehouse as claim
from ml_metrics.warehouse.warehouse import Claim
from unit.warehouse.records import TEST, record

if TYPE_CHECKING:
    from collections.abc import Callable

    from ml_metrics.warehouse import Warehouse


def older(run: str | None, *, deployment: str = "local", dag: str | None = TEST) -> RunRecord:
    """A run of an older version, under the key that it has."""
    made = record(0)
    key = Run(TEST, dag or TEST, run or "", deployment).key
    job = replace(made.job, uuid=key, dag_id=dag, run_id=run)
    return RunRecord(job, tuple(replace(one, run_key=key) for one in made.metrics))


def without_deployment(warehouse: Warehouse, *runs: RunRecord) -> None:
    warehouse.load_all(runs)
    for table in ("job_history", "metric_history"):
        warehouse.database.change(f"UPDATE {table} SET deployment = NULL WHERE TRUE")


def owners(warehouse: Warehouse, table: str) -> dict[str, str | None]:
    rows = warehouse.database.query(f"SELECT DISTINCT uuid, deployment FROM {table}")
    return {row["uuid"]: row["deployment"] for row in rows}


def test_a_deployment_claims_the_runs_whose_keys_are_made_from_its_name(opener: Callable[..., Warehouse]) -> None:
    warehouse = opener()
    own = [older("scheduled__1"), older("scheduled__2")]
    others = [older("scheduled__1", deployment="prod"), older("scheduled__3", dag=None), older(None), older("")]
    others = list({one.key: one for one in others}.values())
    without_deployment(warehouse, *own, *others)
    assert warehouse.claim_runs() == Claim(claimed=2, left=len(others))
    for table in ("job_history", "metric_history"):
        assert owners(warehouse, table) == {one.key: "local" for one in own} | {one.key: None for one in others}
    assert warehouse.claim_runs() == Claim(0, len(others))


@pytest.mark.parametrize("runs", [1, 3, 4, 7])
@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_every_run_is_looked_at_page_by_page(
    opener: Callable[..., Warehouse], monkeypatch: pytest.MonkeyPatch, runs: int
) -> None:
    monkeypatch.setattr(claim, "PAGE_RUNS", 3)
    warehouse = opener()
    of = [older(f"scheduled__{number}", deployment="prod" if number % 3 else "local") for number in range(runs)]
    without_deployment(warehouse, *of)
    own = (runs + 2) // 3
    assert warehouse.claim_runs() == Claim(own, runs - own)
