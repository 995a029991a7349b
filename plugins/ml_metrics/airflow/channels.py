"""The channels and the mail settings of this deployment, from Airflow connections, settings and secrets."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ml_metrics.airflow.connections import find_connection, find_variable
from ml_metrics.alerts import (
    DEFAULT_LOG_LINES,
    DEFAULT_MAILS_PER_HOUR,
    DEFAULT_MASS_FAILURE_PERCENT,
    DEFAULT_MASS_FAILURE_TESTS,
    MAX_LOG_LINES,
    MailSettings,
)
from ml_metrics.alerts.channels.channel import Unusable
from ml_metrics.config.policy import current_policy
from ml_metrics.core.errors import ConfigError, MlMetricsError
from ml_metrics.core.extras import ExtraMissingError, require
from ml_metrics.core.settings import Settings
from ml_metrics.core.text import logger_of
from ml_metrics.judge import SILENT_RUNS
from ml_metrics.store.disks import outbox_problem

if TYPE_CHECKING:
    from collections.abc import Callable

    from ml_metrics.alerts.channels.channel import Channel


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
        if client is None:
            from google.cloud.secretmanager_v1 import SecretManagerServiceClient

            client = SecretManagerServiceClient()
        answer = client.access_secret_version(name=path, timeout=TIMEOUT_SECONDS)
        return str(answer.payload.data.decode().strip())
    except NotFound:
        return ""
    except (GoogleAPIError, GoogleAuthError, UnicodeDecodeError) as error:
        log.warning("secret %s of project %s cannot be read: %s", name, project, type(error).__name__)
        return ""


SENDGRID_KEY = "sendgrid-api-key"
"""The name of a secret, shared with older systems."""


def outbox_of(settings: Settings) -> Channel:
    """Return the outbox folder, unless it would be on the disk of a worker that nobody can read."""
    from ml_metrics.alerts.channels.mail import Outbox

    problem = outbox_problem(settings)
    return Unusable("outbox", problem) if problem else Outbox(settings.outbox)


def channel_of(name: str, settings: Settings, outbox: Channel) -> Channel:
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


def named_secret(name: str, project: str) -> str:
    """Return the Airflow variable of this name, else the secret in Google Cloud's Secret Manager, else ""."""
    value = find_variable(name).strip()
    return value if value or not project else read_secret(project, name)


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
    require("sendgrid", f"[ml_metrics] channels: {name}")
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
    return SendGrid(key, sender=extra.get("from_email", ""), host=_protected(host, conn_id, settings), name=name)


def _by_address(name: str, conn_id: str, settings: Settings) -> Channel:
    """Return a channel that needs only an address: the password, or the host with the password as its secret part."""
    from ml_metrics.alerts.channels.webhook import GoogleChat, Teams, Webhook

    connection = _connection(conn_id)
    host, secret = (connection.host or "").strip().rstrip("/"), (connection.password or "").strip()
    address = secret if secret.startswith(("http://", "https://")) else f"{host}/{secret.lstrip('/')}"
    _check_address(address, conn_id, "its host or its password should be the address of the webhook")
    kinds: dict[str, Callable[..., Channel]] = {
        "webhook": Webhook,
        "teams": Teams,
        "google_chat": GoogleChat,
    }
    return kinds[name.partition(":")[0]](_protected(address, conn_id, settings), name=name)


def _mlflow(name: str, conn_id: str, settings: Settings) -> Channel:
    from ml_metrics.alerts.channels.mlflow import EXPERIMENT, Mlflow

    connection = _connection(conn_id)
    address = (connection.host or "").strip().rstrip("/")
    _check_address(address, conn_id, "its host should be the address of the tracking server, with https://")
    login, password = (connection.login or "").strip(), (connection.password or "").strip()
    experiment = str(connection.extra_dejson.get("experiment") or EXPERIMENT)
    if not re.fullmatch(r"[\w.\- /]{1,200}", experiment):
        raise ConfigError(f"connection `{conn_id}`: the experiment in its extra has characters that it may not have")
    address = _protected(address, conn_id, settings) if password else address
    return Mlflow(address, login, password, experiment, name)


def _by_key(name: str, conn_id: str, settings: Settings) -> Channel:
    from ml_metrics.alerts.channels import paging

    kinds: dict[str, tuple[str, Callable[..., Channel], str]] = {
        "pagerduty": (paging.PAGERDUTY_HOST, paging.PagerDuty, "the integration key of an Events API v2 integration"),
        "opsgenie": (paging.OPSGENIE_HOST, paging.Opsgenie, "the key of an API integration"),
    }
    default_host, make, key = kinds[name.partition(":")[0]]
    connection = _connection(conn_id)
    if not (connection.password or "").strip():
        raise ConfigError(f"connection `{conn_id}`: its password should be {key}")
    host = (connection.host or default_host).strip().rstrip("/")
    _check_address(host, conn_id, f"its host should be empty or an address such as {default_host}")
    return make(connection.password.strip(), host=_protected(host, conn_id, settings), name=name)


def _github(name: str, conn_id: str, settings: Settings) -> Channel:
    from ml_metrics.alerts.channels.github import HOST, GitHubIssues

    connection = _connection(conn_id)
    repository = connection.extra_dejson.get("repository", "")
    if repository.count("/") != 1 or not connection.password:
        raise ConfigError(
            f'connection `{conn_id}`: its password should be a token, and its extra {{"repository": "owner/name"}}'
        )
    host = _protected(connection.host or HOST, conn_id, settings)
    return GitHubIssues(repository, connection.password, host=host, name=name)


def _error_reporting(name: str, conn_id: str, settings: Settings) -> Channel:
    require("google", f"[ml_metrics] channels: {name}", "airflow.providers.google")
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
    host = _protected(connection.host or HOST, conn_id, settings)
    return ErrorReporting(str(hook.project_id), token, host=host, name=name)


FACTORIES: dict[str, tuple[Callable[[str, str, Settings], Channel], str]] = {
    "smtp": (_smtp, "smtp_default"),
    "sendgrid": (_sendgrid, "sendgrid_default"),
    "webhook": (_by_address, "ml_metrics_webhook"),
    "github": (_github, "ml_metrics_github"),
    "teams": (_by_address, "ml_metrics_teams"),
    "google_chat": (_by_address, "ml_metrics_google_chat"),
    "pagerduty": (_by_key, "ml_metrics_pagerduty"),
    "opsgenie": (_by_key, "ml_metrics_opsgenie"),
    "mlflow": (_mlflow, "ml_metrics_mlflow"),
    "error_reporting": (_error_reporting, "google_cloud_default"),
}
"""The factory of each kind of channel, and its connection if the settings name none."""


def _protected(address: str, conn_id: str, settings: Settings) -> str:
    """Return an address that does not expose its secret: https, this machine, or a host of the setting."""
    try:
        parts = urlsplit(address)
        host = parts.hostname or ""
    except ValueError:
        raise ConfigError(f"connection `{conn_id}`: its address is malformed") from None
    trusted = {"localhost", *(one.strip().lower() for one in settings.plain_http_hosts.split(","))}
    with suppress(ValueError):
        trusted |= {host} if ip_address(host).is_loopback else set()
    if parts.scheme == "http" and host not in trusted:
        raise ConfigError(
            f"connection `{conn_id}`: its address begins with http://, so that everybody on the way to {host} could "
            "read its secret. Use https://, or name the host in [ml_metrics] plain_http_hosts"
        )
    return address.rstrip("/")


def _check_address(text: str, conn_id: str, otherwise: str) -> None:
    if not text.startswith(("http://", "https://")):
        raise ConfigError(f"connection `{conn_id}`: {otherwise}")


def _connection(conn_id: str) -> Any:
    connection = find_connection(conn_id)
    if connection is None:
        raise ConfigError(f"there is no Airflow connection `{conn_id}`")
    return connection


def _true(value: Any) -> bool:
    return str(value).lower() in {"true", "1", "yes"}


RECIPIENT, SENDER = "alert-destination-email-address", "alert-sender-email-address"
"""Names of secrets, shared with older systems."""


def load_mail_settings() -> MailSettings:
    settings = Settings.load()
    outbox = outbox_of(settings)
    return MailSettings(
        channels=tuple(channel_of(name, settings, outbox) for name in settings.channel_names),
        outbox=outbox,
        trial_domain=settings.trial_domain,
        storage_root=settings.storage_root,
        deployment=settings.deployment,
        dashboard_url=settings.dashboard_url,
        recipients=tuple(_addresses(named_secret(RECIPIENT, settings.secrets_project))),
        sender=named_secret(SENDER, settings.secrets_project),
        mails_per_hour=_number("mails_per_hour", settings.mails_per_hour, DEFAULT_MAILS_PER_HOUR),
        duty=tuple(_addresses(settings.duty_emails)),
        cost=tuple(_addresses(settings.cost_emails)),
        mass_failure_tests=_number("mass_failure_tests", settings.mass_failure_tests, DEFAULT_MASS_FAILURE_TESTS),
        mass_failure_percent=_number(
            "mass_failure_percent", settings.mass_failure_percent, DEFAULT_MASS_FAILURE_PERCENT
        ),
        alert_budgets=_alert_budgets(),
        silent_runs=_number("silent_runs", settings.silent_runs, SILENT_RUNS),
        log_lines=min(_number("log_lines_in_mails", settings.log_lines_in_mails, DEFAULT_LOG_LINES), MAX_LOG_LINES),
    )


def _alert_budgets() -> dict[str, float]:
    """Return those of the policy. One that cannot be read holds nothing back."""
    try:
        return current_policy().alert_budgets
    except MlMetricsError as error:
        log.warning("alerts have no budget: %s", error)
        return {}


def _addresses(text: str) -> list[str]:
    return [address for part in text.replace(";", ",").split(",") if (address := part.strip())]


def _number(key: str, text: str, default: int) -> int:
    """Return a number, or the default for an invalid one: a wrong setting must not silence alerts."""
    if text.isdecimal():
        return int(text)
    log.error("[ml_metrics] %s: %r is not a number; using %d", key, text, default)
    return default
