"""The channels, addresses and limits of this deployment, from its settings, Airflow connections and secrets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ml_metrics.alerts.channels.channel import Channel
from ml_metrics.alerts.outbox.documents import MessageFolder
from ml_metrics.config.definition import TestDefinition
from ml_metrics.core.text import logger_of
from ml_metrics.judge import SILENT_RUNS
from ml_metrics.store.markers import Markers

log = logger_of(__name__)
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
    alert_budgets: Mapping[str, float] = field(default_factory=dict)
    """By owner, or `default`: with which probability a night in which nothing is wrong may bring an alarm."""

    @property
    def message_folder(self) -> MessageFolder:
        """The folder of the messages that are not about one run."""
        return MessageFolder.of_deployment(self.storage_root, self.deployment)

    @property
    def markers(self) -> Markers:
        """The markers of the messages that may not be in the warehouse yet."""
        return Markers.of(self.storage_root, self.deployment)

    def recipients_of(self, emails: tuple[str, ...]) -> tuple[str, ...]:
        return emails or self.recipients

    def sender_of(self, test: TestDefinition) -> str:
        return test.sender or self.sender
