"""What a task of the DAG `ml-metrics-storage` does: remove the run folders that are kept no longer."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from ml_metrics.log_lines import logger_of
from ml_metrics.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from ml_metrics.model import Run

log = logger_of(__name__)
PASS_SECONDS = 50 * 60.0
"""The time of a pass. The next one removes the rest."""
IN_PROGRESS = ["queued", "running"]


def prune_storage() -> str:
    """Remove what the settings no longer keep. Skipped while they keep everything."""
    from datetime import UTC, datetime

    from airflow.sdk import get_current_context

    from ml_metrics.airflow_versions import AirflowSkipException
    from ml_metrics.connections import warehouse
    from ml_metrics.removal import Usage
    from ml_metrics.retention import Ages, Needed, Remover, StoredRuns, prune

    settings = Settings.load()
    ages, until = Ages.of(settings), time.monotonic() + PASS_SECONDS
    if not ages.are_set:
        raise AirflowSkipException("the settings keep_runs_days and keep_failed_runs_days keep every run folder")
    stored = StoredRuns(settings.storage_root, settings.deployment)
    with warehouse() as opened:
        needed = Needed.of(stored.root, stored.deployment, opened, datetime.now(UTC))
    remover = Remover(stored.root, lambda: time.monotonic() > until)
    total, runs = Usage(), 0
    total.add(remover.resume())
    in_progress = _in_progress(get_current_context()["ti"])
    for run, removed in prune(stored.tests(), stored, ages, needed, remover, in_progress):
        log.info("removed run %s of %s: %d files, %d bytes", run.key, run.test, removed.files, removed.bytes)
        total.add(removed)
        runs += 1
    late = "; the next pass continues" if remover.is_late() else ""
    return f"{runs} runs removed, {total.files} files, {total.bytes} bytes{late}"


def _in_progress(ti: Any) -> Callable[[Collection[Run]], Collection[str]]:
    """Return a function that finds the runs which Airflow is running. A run that it no longer knows is not."""

    def find(runs: Collection[Run]) -> Collection[str]:
        return {
            run.key for run in runs if ti.get_dr_count(dag_id=run.dag_id, run_ids=[run.run_id], states=IN_PROGRESS) > 0
        }

    return find
