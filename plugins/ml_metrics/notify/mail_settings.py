"""The channels, addresses and limits of this deployment, from its settings, Airflow connections and secrets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ml_metrics.alerts.markers import Markers
from ml_metrics.alerts.message_folder import MessageFolder
from ml_metrics.judge.undecided import SILENT_RUNS
from ml_metrics.notify.channel_factories import channel_of, named_secret, outbox_of
from ml_metrics.settings import Settings

if TYPE_CHECKING:
    from ml_metrics.alerts.channels.channel import Channel
    from ml_metrics.config.definition import TestDefinition
from ml_metrics.log_lines import logger_of

log = logger_of(__name__)

RECIPIENT, SENDER = "alert-destination-email-address", "alert-sender-email-address"
"""Names of secrets, shared with older systems."""
DEFAULT_MAILS_PER_HOUR = 10
DEFAULT_MASS_FAILURE_TESTS, DEFAULT_MASS_FAILURE_PERCENT = 20, 30
DEFAULT_LOG_LINES = 20
MAX_LOG_LINES = 100


@dataclass(frozen=True, slots=True)
class MailSettings:
    """Everything that sending a message depends on."""

    channels: tuple[Channel, ...]
    outbox: Channel
    dashboard_url: str = ""
    recipients: tuple[str, ...] = ()
    """The recipients of tests that name none."""
    sender: str = ""
    mails_per_hour: int = DEFAULT_MAILS_PER_HOUR
    duty: tuple[str, ...] = ()
    """The recipients of the message about a mass failure; empty for the default ones."""
    cost: tuple[str, ...] = ()
    """The recipients of the weekly message about cost; empty for nobody."""
    mass_failure_tests: int = DEFAULT_MASS_FAILURE_TESTS
    mass_failure_percent: int = DEFAULT_MASS_FAILURE_PERCENT
    log_lines: int = DEFAULT_LOG_LINES
    """How many lines of a log a message shows."""
    silent_runs: int = SILENT_RUNS
    """After how many runs without a decision a condition is reported; 0 for never."""
    trial_domain: str = ""
    """The domain of users' mail addresses, for the verdicts of trials."""
    storage_root: str = ""
    """The parent of all run folders."""
    deployment: str = "local"

    @property
    def message_folder(self) -> MessageFolder:
        """The folder of the messages that are not about one run."""
        return MessageFolder.of_deployment(self.storage_root, self.deployment)

    @property
    def markers(self) -> Markers:
        """The markers of the messages that may not be in the warehouse yet."""
        return Markers.of(self.storage_root, self.deployment)

    def recipients_of(self, emails: tuple[str, ...]) -> tuple[str, ...]:
        """Return the test's own recipients, else the default ones."""
        return emails or self.recipients

    def sender_of(self, test: TestDefinition) -> str:
        """Return the test's own sender, else the default one."""
        return test.sender or self.sender


def load_mail_settings() -> MailSettings:
    """Return the settings of this deployment, with its channels."""
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
