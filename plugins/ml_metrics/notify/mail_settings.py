"""The channels, addresses and limits of this deployment, from its settings, Airflow connections and secrets."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ml_metrics.alerts.channels.channel import UndeliveredError
from ml_metrics.alerts.channels.outbox import Outbox
from ml_metrics.connections import find_connection
from ml_metrics.errors import ConfigError, MlMetricsError
from ml_metrics.judge.undecided import SILENT_RUNS
from ml_metrics.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from ml_metrics.alerts.channels.channel import Channel
    from ml_metrics.alerts.delivery import Clock
    from ml_metrics.alerts.message import Message
    from ml_metrics.config.definition import TestDefinition

log = logging.getLogger(__name__)

SENDGRID_KEY = "sendgrid-api-key"
RECIPIENT, SENDER = "alert-destination-email-address", "alert-sender-email-address"
"""Names of secrets, shared with older systems."""
DEFAULT_MAILS_PER_HOUR = 10
DEFAULT_LOG_LINES = 20
MAX_LOG_LINES = 100


@dataclass(frozen=True, slots=True)
class MailSettings:
    """Everything that sending a message depends on."""

    channels: tuple[Channel, ...]
    outbox: Outbox
    dashboard_url: str = ""
    recipients: tuple[str, ...] = ()
    """The recipients of tests that name none."""
    sender: str = ""
    mails_per_hour: int = DEFAULT_MAILS_PER_HOUR
    log_lines: int = DEFAULT_LOG_LINES
    """How many lines of a log a message shows."""
    silent_runs: int = SILENT_RUNS
    """After how many runs without a decision a condition is reported; 0 for never."""
    clock: Clock | None = None

    def recipients_of(self, emails: tuple[str, ...]) -> tuple[str, ...]:
        """Return the test's own recipients, else the default ones."""
        return emails or self.recipients

    def sender_of(self, test: TestDefinition) -> str:
        """Return the test's own sender, else the default one."""
        return test.sender or self.sender


def load_mail_settings() -> MailSettings:
    """Return the settings of this deployment, with its channels."""
    settings = Settings.load()
    outbox = Outbox(settings.outbox)
    names = [name for part in settings.channels.split(",") if (name := part.strip())]
    return MailSettings(
        channels=tuple(channel_of(name, settings, outbox) for name in dict.fromkeys(names)),
        outbox=outbox,
        dashboard_url=settings.dashboard_url,
        recipients=tuple(_addresses(named_secret(RECIPIENT, settings.secrets_project))),
        sender=named_secret(SENDER, settings.secrets_project),
        mails_per_hour=_number("mails_per_hour", settings.mails_per_hour, DEFAULT_MAILS_PER_HOUR),
        silent_runs=_number("silent_runs", settings.silent_runs, SILENT_RUNS),
        log_lines=min(_number("log_lines_in_mails", settings.log_lines_in_mails, DEFAULT_LOG_LINES), MAX_LOG_LINES),
    )


def _addresses(text: str) -> list[str]:
    return [address for part in text.replace(";", ",").split(",") if (address := part.strip())]


def _number(key: str, text: str, default: int) -> int:
    """Return a number, or the default for an invalid one: a wrong setting must not silence alerts."""
    if text.isdecimal():
        return int(text)
    log.error("[ml_metrics] %s: %r is not a number; using %d", key, text, default)
    return default


def channel_of(name: str, settings: Settings, outbox: Outbox) -> Channel:
    """Return the channel with a name from the settings: `kind` or `kind:connection`."""
    kind, _, conn_id = name.partition(":")
    if kind == "outbox":
        return outbox
    if kind not in FACTORIES:
        return Unusable(name, f"[ml_metrics] channels: {kind!r} is not one of outbox, {', '.join(FACTORIES)}")
    try:
        make, default_conn_id = FACTORIES[kind]
        return make(name, conn_id or default_conn_id, settings)
    except MlMetricsError as error:
        return Unusable(name, str(error))
    except Exception as error:  # noqa: BLE001  (an error of one Airflow hook must not silence the other channels)
        return Unusable(name, f"its connection is unusable: {type(error).__name__}")


@dataclass(frozen=True, slots=True)
class Unusable:
    """A misconfigured channel: its messages are saved in the outbox, with the reason."""

    name: str
    reason: str
    secrets: tuple[str, ...] = ()

    def send(self, message: Message, timeout: float) -> str:  # noqa: ARG002  (the interface of every channel)
        """Raise `UndeliveredError`."""
        raise UndeliveredError(self.reason)


def named_secret(name: str, project: str) -> str:
    """Return the Airflow variable of this name, else the secret in Google Cloud's Secret Manager, else ""."""
    from airflow.sdk import Variable

    try:
        value = Variable.get(name, default=None)
    except Exception as error:  # noqa: BLE001  (Airflow's secret backends raise unrelated errors)
        log.warning("Airflow's variable %s cannot be read: %s", name, type(error).__name__)
        value = None
    if value or not project:
        return str(value or "").strip()
    from ml_metrics.cloud.secrets import read_secret

    return read_secret(project, name)


def _smtp(name: str, conn_id: str, settings: Settings) -> Channel:  # noqa: ARG001  (the interface of every factory)
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
            f"SendGrid has no API key: set the password of connection `{conn_id}`, the secret `{SENDGRID_KEY}`, "
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
        raise ConfigError(f"connection `{conn_id}`: its host or its password should be the address of the webhook")
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
        raise ConfigError(f"connection `{conn_id}`: it has no project")
    return ErrorReporting(str(hook.project_id), token, host=(connection.host or HOST).rstrip("/"), name=name)


FACTORIES: dict[str, tuple[Callable[[str, str, Settings], Channel], str]] = {
    "smtp": (_smtp, "smtp_default"),
    "sendgrid": (_sendgrid, "sendgrid_default"),
    "webhook": (_webhook, "ml_metrics_webhook"),
    "github": (_github, "ml_metrics_github"),
    "error_reporting": (_error_reporting, "google_cloud_default"),
}
"""The factory of each kind of channel, and the connection of a channel for which the settings name none."""


def _connection(conn_id: str) -> Any:
    connection = find_connection(conn_id)
    if connection is None:
        raise ConfigError(f"there is no Airflow connection `{conn_id}`")
    return connection


def _true(value: Any) -> bool:
    return str(value).lower() in {"true", "1", "yes"}
