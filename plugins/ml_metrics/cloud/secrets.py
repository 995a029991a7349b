"""Google Cloud's Secret Manager: one value by its name."""

from __future__ import annotations

import logging
from typing import Any

log = logging.getLogger(__name__)

PATIENCE = 10.0
"""Seconds. A message that waits for a secret has others behind it."""


def read_secret(project: str, name: str, client: Any = None) -> str:
    """The newest version of a secret; empty if there is none, or if we may not read it, which the log says."""
    from google.api_core.exceptions import GoogleAPIError, NotFound
    from google.auth.exceptions import GoogleAuthError

    path = f"projects/{project}/secrets/{name}/versions/latest"
    try:
        answer = (client or _client()).access_secret_version(name=path, timeout=PATIENCE)
        return str(answer.payload.data.decode().strip())
    except NotFound:
        return ""
    except (GoogleAPIError, GoogleAuthError, UnicodeDecodeError) as error:
        log.warning("secret %s of project %s cannot be read: %s", name, project, type(error).__name__)
        return ""


def _client() -> Any:
    from google.cloud.secretmanager_v1 import SecretManagerServiceClient

    return SecretManagerServiceClient()
