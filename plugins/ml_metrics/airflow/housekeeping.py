"""The task of the DAG `ml-metrics-doctor`: checks the installation from where tasks run."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from ml_metrics.core.settings import Settings
from ml_metrics.core.text import logger_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from ml_metrics.core.model import Run


log = logger_of(__name__)


def diagnose_here() -> str:
    """Log every check of this installation. The task fails if a check does."""
    from ml_metrics.airflow.doctor import diagnose
    from ml_metrics.airflow.versions import AirflowFailException

    found = []
    for check in diagnose():
        (log.info if check.ok else log.error)("%s: %s", check.name, check.message)
        found.append(check)
    if wrong := [check.name for check in found if not check.ok]:
        raise AirflowFailException(f"{len(wrong)} of {len(found)} checks are wrong: {', '.join(wrong)}")
    return f"{len(found)} checks, none wrong"


PASS_SECONDS = 50 * 60.0
"""The time of a pass. The next one removes the rest."""


def prune_rows() -> str:
    """Remove the rows that the setting no longer keeps. Skipped while it keeps everything."""
    from ml_metrics.airflow.connections import warehouse
    from ml_metrics.airflow.versions import AirflowSkipException
    from ml_metrics.pipeline import old_rows

    setting, until = Settings.load().keep_rows_days, time.monotonic() + PASS_SECONDS
    if not setting.strip():
        raise AirflowSkipException("the setting keep_rows_days keeps every row")

    def is_late() -> bool:
        return time.monotonic() > until

    with warehouse() as opened:
        rows = old_rows(setting, opened)
        removed = sum(rows.remove(is_late)) if rows else 0
    late = "; the next pass continues" if is_late() else ""
    return f"the rows of {removed} runs removed{late}"


log = logger_of(__name__)
PASS_SECONDS = 50 * 60.0
"""The time of a pass. The next one removes the rest."""
IN_PROGRESS = ["queued", "running"]


def prune_storage() -> str:
    """Remove what the settings no longer keep. Skipped while they keep everything."""
    from collections import Counter
    from datetime import UTC, datetime
    from itertools import chain

    from airflow.sdk import get_current_context

    from ml_metrics.airflow.connections import warehouse
    from ml_metrics.airflow.versions import AirflowSkipException
    from ml_metrics.pipeline import RUN, Ages, Needed, Remover, StoredExperiments, StoredRuns, prune
    from ml_metrics.store.confined import Usage

    settings = Settings.load()
    ages, until = Ages.of(settings), time.monotonic() + PASS_SECONDS
    if not ages.are_set:
        raise AirflowSkipException("the settings keep_runs_days and keep_failed_runs_days keep every run folder")
    stored = StoredRuns(settings.storage_root, settings.deployment)
    with warehouse() as opened:
        needed = Needed.of(stored.root, stored.deployment, opened, datetime.now(UTC))
    remover = Remover(stored.root, lambda: time.monotonic() > until)
    total, counts = Usage(), Counter[str]()
    total.add(remover.resume())
    in_progress = _in_progress(get_current_context()["ti"])
    journals = StoredExperiments(stored.root, stored.deployment).prune(ages, needed, is_late=remover.is_late)
    for run, removed in chain(prune(stored.tests(), stored, ages, needed, remover, in_progress), journals):
        log.info("removed %s %s of %s: %d files, %d bytes", run.kind, run.key, run.test, removed.files, removed.bytes)
        total.add(removed)
        counts["runs" if run.kind == RUN else "journals"] += 1
    late = "; the next pass continues" if remover.is_late() else ""
    found = f"{counts['runs']} runs" + (f" and {counts['journals']} journals" if counts["journals"] else "")
    return f"{found} removed, {total.files} files, {total.bytes} bytes{late}"


def _in_progress(ti: Any) -> Callable[[Collection[Run]], Collection[str]]:
    """Return a function that finds the runs which Airflow is running. A run that it no longer knows is not."""

    def find(runs: Collection[Run]) -> Collection[str]:
        return {
            run.key for run in runs if ti.get_dr_count(dag_id=run.dag_id, run_ids=[run.run_id], states=IN_PROGRESS) > 0
        }

    return find
