"""The task of the DAG `ml-metrics-doctor`: checks the installation from where tasks run."""

from __future__ import annotations

from ml_metrics.log_lines import logger_of

log = logger_of(__name__)


def diagnose_here() -> str:
    """Log every check of this installation. The task fails if a check does."""
    from ml_metrics.airflow_versions import AirflowFailException
    from ml_metrics.doctor.diagnosis import diagnose

    found = []
    for check in diagnose():
        (log.info if check.ok else log.error)("%s: %s", check.name, check.message)
        found.append(check)
    if wrong := [check.name for check in found if not check.ok]:
        raise AirflowFailException(f"{len(wrong)} of {len(found)} checks are wrong: {', '.join(wrong)}")
    return f"{len(found)} checks, none wrong"
