"""How soon Airflow notices that something is gone: after its own times in whole campaigns, sooner in short ones."""

from __future__ import annotations

SOON = {
    "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "5",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_DETECTION_INTERVAL": "5",
    "AIRFLOW__TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": "10",
    "AIRFLOW__WORKERS__API_RETRIES": "2",
}
"""A new file, a worker, a triggerer, and the API server of Kubernetes, whose client asks five times before it fails."""


def settings(*, short: bool) -> dict[str, str]:
    """Return the variables that an Airflow of a campaign has."""
    return SOON if short else {}
