"""Reading secrets from Google Cloud Secret Manager."""

from __future__ import annotations

from typing import Any

from ml_metrics.extras import ExtraMissingError, require
from ml_metrics.log_lines import logger_of

log = logger_of(__name__)

TIMEOUT_SECONDS = 10.0
"""Short, because other messages wait behind the one that needs the secret."""


def read_secret(project: str, name: str, client: Any = None) -> str:
    """Return the newest version of a secret; empty if it does not exist. If it cannot be read, that is logged."""
    try:
        require("google", "[ml_metrics] secrets_project", "google.cloud.secretmanager_v1")
    except ExtraMissingError as error:
        log.warning("secret %s cannot be read: %s", name, error)
        return ""
    from google.api_core.exceptions import GoogleAPIError, NotFound
    from google.auth.exceptions import GoogleAuthError

    path = f"projects/{project}/secrets/{name}/versions/latest"
    try:
        answer = (client or _client()).access_secret_version(name=path, timeout=TIMEOUT_SECONDS)
        return str(answer.payload.data.decode().strip())
    except NotFound:
        return ""
    except (GoogleAPIError, GoogleAuthError, UnicodeDecodeError) as error:
        log.warning("secret %s of project %s cannot be read: %s", name, project, type(error).__name__)
        return ""


def _client() -> Any:
    from google.cloud.secretmanager_v1 import SecretManagerServiceClient

    return SecretManagerServiceClient()
