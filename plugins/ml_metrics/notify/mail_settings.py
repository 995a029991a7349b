"""Everything that sending needs, from the settings of this deployment."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ml_metrics.alerts.channels.outbox import Outbox
from ml_metrics.notify.channels import channel_of
from ml_metrics.notify.secret import named_secret
from ml_metrics.settings import Settings

if TYPE_CHECKING:
    from ml_metrics.alerts.channels.channel import Channel
    from ml_metrics.alerts.delivery import Clock
    from ml_metrics.config.definition import TestDefinition

log = logging.getLogger(__name__)

RECIPIENT, SENDER = "alert-destination-email-address", "alert-sender-email-address"
"""Names of secrets, which older systems use, too."""
USUAL_LIMIT = 10


@dataclass(frozen=True, slots=True)
class Post:
    """Everything that sending needs."""

    channels: tuple[Channel, ...]
    outbox: Outbox
    dashboard_url: str = ""
    recipients: tuple[str, ...] = ()
    """Who gets the mails of tests that name nobody."""
    sender: str = ""
    mails_per_hour: int = USUAL_LIMIT
    clock: Clock | None = None

    def recipients_of(self, emails: tuple[str, ...]) -> tuple[str, ...]:
        """The test's own recipients, else those of everybody."""
        return emails or self.recipients

    def sender_of(self, test: TestDefinition) -> str:
        """The test's own sender, else that of everybody."""
        return test.sender or self.sender


def post_office() -> Post:
    """The channels of this deployment."""
    settings = Settings.load()
    outbox = Outbox(settings.outbox)
    names = [name for part in settings.channels.split(",") if (name := part.strip())]
    return Post(
        channels=tuple(channel_of(name, settings, outbox) for name in dict.fromkeys(names)),
        outbox=outbox,
        dashboard_url=settings.dashboard_url,
        recipients=tuple(_addresses(named_secret(RECIPIENT, settings.secrets_project))),
        sender=named_secret(SENDER, settings.secrets_project),
        mails_per_hour=_mails_per_hour(settings.mails_per_hour),
    )


def _addresses(text: str) -> list[str]:
    return [address for part in text.replace(";", ",").split(",") if (address := part.strip())]


def _mails_per_hour(text: str) -> int:
    """A limit that cannot be read is the usual one: no setting may silence everybody."""
    if text.isdecimal():
        return int(text)
    log.error("[ml_metrics] mails_per_hour: %r is no number of mails; taken as %d", text, USUAL_LIMIT)
    return USUAL_LIMIT
