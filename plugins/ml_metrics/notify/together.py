"""Decides which messages about single tests wait, because another message reports several tests together."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from ml_metrics.alerts.mail import file_name
from ml_metrics.alerts.message import MessageKind
from ml_metrics.alerts.policy import PART_OF, PART_OF_MASS_FAILURE
from ml_metrics.documents import Documents
from ml_metrics.errors import FileMissingError, MlMetricsError, UnreadableInputError
from ml_metrics.log_lines import logger_of
from ml_metrics.notify.mass_failure import FEWEST_TESTS, newest_mass_failure
from ml_metrics.values import short_hash

if TYPE_CHECKING:
    from ml_metrics.model import Run
    from ml_metrics.notify.mail_settings import MailSettings
    from ml_metrics.warehouse import Incident, Warehouse

log = logger_of(__name__)

WINDOW = timedelta(hours=2)
"""How long after the newest member of an incident a test with the same cause joins it."""
HOUR = timedelta(hours=1)
CLAIM_MINUTES = 5
"""How long only its claim shows the first test with a cause, before its incident is stored."""


@dataclass(frozen=True, slots=True)
class Together:
    """What is known about other tests when a message about one is decided."""

    run: Run
    warehouse: Warehouse
    mail: MailSettings
    now: datetime

    def reason_to_hold(self, kind: MessageKind, cause: str, incident: Incident | None) -> str:
        """Return why a message waits for one about several tests; empty if it does not."""
        if self._is_one_of_many():
            return PART_OF_MASS_FAILURE
        if kind is MessageKind.RECOVERED and incident is not None and incident.cause:
            return f"{PART_OF}{incident.cause}" if self._shared(incident) else ""
        own = incident.cause if incident is not None else ""
        joins = kind is not MessageKind.RECOVERED and cause and cause != own and self._is_known(cause)
        return f"{PART_OF}{cause}" if joins else ""

    def _is_one_of_many(self) -> bool:
        """Whether many tests of the same folder broke in a mass failure that is new.

        One team's failures do not delay messages about another's.
        """
        mass = newest_mass_failure(self.warehouse, self.now)
        if mass is None or not mass.is_running(self.now) or mass.start.timestamp <= self.now - HOUR:
            return False
        files = {name: Path(one.file).parent for name, one in self.warehouse.known_tests.read().tests.items()}
        own = files.get(self.run.test)
        broken = {self.run.test, *mass.opened(self.warehouse)}
        return own is None or sum(files.get(test) == own for test in broken) >= FEWEST_TESTS

    def _shared(self, incident: Incident) -> bool:
        """Whether other tests had the cause of an incident as well."""
        since = (incident.caused_at or incident.opened_at) - WINDOW
        return bool(self.warehouse.incidents.tests_of_cause(incident.cause, since) - {incident.test})

    def _is_known(self, cause: str) -> bool:
        """Whether another test was the first with a cause. Of several at the same moment, one is the first."""
        members = [one for one in self.warehouse.incidents.of_cause(cause) if one.test != self.run.test]
        if members and members[0].caused_at is not None and members[0].caused_at > self.now - WINDOW:
            return True
        try:
            return not self._claim(cause)
        except MlMetricsError as error:
            log.warning("whether another test has this cause is unknown: %s", error)
            return False

    def _claim(self, cause: str) -> bool:
        """Claim to be the first test with a cause in these minutes. False if another test is."""
        period = int(self.now.timestamp() // (60 * CLAIM_MINUTES))
        claims = Documents.of_deployment(self.mail.storage_root, "causes", file_name(self.mail.deployment))
        earlier, mine = (f"{short_hash(cause)}-{number}" for number in (period - 1, period))
        content = {"test": self.run.test, "at": self.now.astimezone(UTC).isoformat()}
        if claims.exists(earlier):
            return self._is_mine(claims, earlier)
        return claims.create(mine, content) or self._is_mine(claims, mine)

    def _is_mine(self, claims: Documents, name: str) -> bool:
        """Whether this test wrote a claim. A claim that cannot be read delays no message."""
        try:
            return bool(claims.read(name).get("test") == self.run.test)
        except (FileMissingError, UnreadableInputError):
            return True
