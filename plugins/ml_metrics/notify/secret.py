"""A value that an administrator keeps in one place for all: an Airflow variable, or a secret of Google Cloud."""

from __future__ import annotations

import logging

log = logging.getLogger(__name__)


def named_secret(name: str, project: str) -> str:
    """The Airflow variable of this name, else the secret in Google Cloud's Secret Manager; empty without either."""
    from airflow.sdk import Variable

    try:
        found = Variable.get(name, default=None)
    except Exception as error:  # noqa: BLE001  (Airflow has no one family of errors for "cannot be asked")
        log.warning("Airflow's variable %s cannot be read: %s", name, type(error).__name__)
        found = None
    if found or not project:
        return str(found or "").strip()
    from ml_metrics.cloud.secrets import read_secret

    return read_secret(project, name)
