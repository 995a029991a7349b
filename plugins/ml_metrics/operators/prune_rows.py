"""The task of the DAG `ml-metrics-storage` that removes expired rows from the warehouse."""

from __future__ import annotations

import time

from ml_metrics.settings import Settings

PASS_SECONDS = 50 * 60.0
"""The time of a pass. The next one removes the rest."""


def prune_rows() -> str:
    """Remove the rows that the setting no longer keeps. Skipped while it keeps everything."""
    from ml_metrics.airflow_versions import AirflowSkipException
    from ml_metrics.connections import warehouse
    from ml_metrics.retention import old_rows

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
