"""One maker for each kind of channel: from an Airflow connection to what can be sent through."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ml_metrics.alerts.channels.channel import UndeliveredError
from ml_metrics.connections import find_connection
from ml_metrics.errors import ConfigError, MlMetricsError
from ml_metrics.notify.secret import named_secret

if TYPE_CHECKING:
    from collections.abc import Callable

    from ml_metrics.alerts.channels.channel import Channel
    from ml_metrics.alerts.channels.outbox import Outbox
    from ml_metrics.alerts.message import Message
    from ml_metrics.settings import Settings

SENDGRID_KEY = "sendgrid-api-key"
"""The name of a secret, which older systems use, too."""


def channel_of(name: str, settings: Settings, outbox: Outbox) -> Channel:
    """The channel that the settings name, as `kind` or `kind:connection`."""
    kind, _, conn_id = name.partition(":")
    if kind == "outbox":
        return outbox
    if kind not in MAKERS:
        return Unusable(name, f"[ml_metrics] channels: {kind!r} is none of outbox, {', '.join(MAKERS)}")
    try:
        return MAKERS[kind](name, conn_id or CONNECTIONS[kind], settings)
    except MlMetricsError as error:
        return Unusable(name, str(error))
    except Exception as error:  # noqa: BLE001  (Airflow's hooks have errors of their own; none may silence the others)
        return Unusable(name, f"its connection cannot be used: {type(error).__name__}")


@dataclass(frozen=True, slots=True)
class Unusable:
    """A channel that is not set up as it should be: what it should have taken is kept, and says why."""

    name: str
    why: str
    secrets: tuple[str, ...] = ()

    def send(self, message: Message, timeout: float) -> str:  # noqa: ARG002  (as every channel)
        """Never."""
        raise UndeliveredError(self.why)


def _smtp(name: str, conn_id: str, settings: Settings) -> Channel:  # noqa: ARG001  (as every maker)
    from ml_metrics.alerts.channels.smtp import Smtp

    connection = _connection(conn_id)
    extra = connection.extra_dejson
    implicit_tls = not _true(extra.get("disable_ssl"))
    return Smtp(
        host=connection.host or "localhost",
        port=int(connection.port or (465 if implicit_tls else 587)),
        login=connection.login or "",
        password=connection.password or "",
        sender=extra.get("from_email", ""),
        implicit_tls=implicit_tls,
        starttls=not _true(extra.get("disable_tls")),
        verify=extra.get("ssl_context") != "none",
        name=name,
    )


def _sendgrid(name: str, conn_id: str, settings: Settings) -> Channel:
    from ml_metrics.alerts.channels.sendgrid import HOST, SendGrid

    connection = find_connection(conn_id)
    key = connection.password if connection is not None and connection.password else ""
    key = key or named_secret(SENDGRID_KEY, settings.secrets_project) or os.environ.get("SENDGRID_API_KEY", "")
    if not key:
        raise ConfigError(
            f"SendGrid has no key: set the password of connection `{conn_id}`, the secret `{SENDGRID_KEY}`, "
            "or the environment variable SENDGRID_API_KEY"
        )
    extra = connection.extra_dejson if connection is not None else {}
    host = (connection.host or HOST) if connection is not None else HOST
    return SendGrid(key, sender=extra.get("from_email", ""), host=host.rstrip("/"), name=name)


def _webhook(name: str, conn_id: str, settings: Settings) -> Channel:  # noqa: ARG001
    from ml_metrics.alerts.channels.webhook import Webhook

    connection = _connection(conn_id)
    host, secret = (connection.host or "").rstrip("/"), connection.password or ""
    address = secret if secret.startswith(("http://", "https://")) else f"{host}/{secret.lstrip('/')}"
    if "://" not in address:
        raise ConfigError(f"connection `{conn_id}`: its host, or its password, should be the address of the webhook")
    return Webhook(address.rstrip("/"), name=name)


def _github(name: str, conn_id: str, settings: Settings) -> Channel:  # noqa: ARG001
    from ml_metrics.alerts.channels.github import HOST, GitHubIssues

    connection = _connection(conn_id)
    repository = connection.extra_dejson.get("repository", "")
    if repository.count("/") != 1 or not connection.password:
        raise ConfigError(
            f'connection `{conn_id}`: its password should be a token, and its extra {{"repository": "owner/name"}}'
        )
    return GitHubIssues(repository, connection.password, host=(connection.host or HOST).rstrip("/"), name=name)


def _error_reporting(name: str, conn_id: str, settings: Settings) -> Channel:  # noqa: ARG001
    from airflow.providers.google.common.hooks.base_google import GoogleBaseHook

    from ml_metrics.alerts.channels.error_reporting import HOST, ErrorReporting

    connection = _connection(conn_id)
    hook = GoogleBaseHook(gcp_conn_id=conn_id)

    def token() -> str:
        from google.auth.transport.requests import Request

        credentials = hook.get_credentials()
        credentials.refresh(Request())  # type: ignore[no-untyped-call]
        return str(credentials.token)

    if not hook.project_id:
        raise ConfigError(f"connection `{conn_id}`: it names no project")
    return ErrorReporting(str(hook.project_id), token, host=(connection.host or HOST).rstrip("/"), name=name)


MAKERS: dict[str, Callable[[str, str, Settings], Channel]] = {
    "smtp": _smtp,
    "sendgrid": _sendgrid,
    "webhook": _webhook,
    "github": _github,
    "error_reporting": _error_reporting,
}
CONNECTIONS = {
    "smtp": "smtp_default",
    "sendgrid": "sendgrid_default",
    "webhook": "ml_metrics_webhook",
    "github": "ml_metrics_github",
    "error_reporting": "google_cloud_default",
}
"""Which connection a channel uses where the settings name none."""


def _connection(conn_id: str) -> Any:
    connection = find_connection(conn_id)
    if connection is None:
        raise ConfigError(f"there is no Airflow connection `{conn_id}`")
    return connection


def _true(value: Any) -> bool:
    return str(value).lower() in {"true", "1", "yes"}
