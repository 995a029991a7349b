"""The message about one run: decided and written by the gate, and sent at once by its callback.

The warehouse may be slow, hang or be unreachable. Every use of it has a time limit, after which the message is decided
without the state of incidents. Only whether a passing run ends an incident cannot be decided that way: senders decide
it later.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ml_metrics.errors import MlMetricsError, StorageError
from ml_metrics.log_lines import logger_of
from ml_metrics.notify.decide import RunMessages
from ml_metrics.notify.in_time import in_time
from ml_metrics.notify.mass_failure import post_mass_failure
from ml_metrics.notify.outgoing import post, record_waiting
from ml_metrics.notify.results import post_result
from ml_metrics.notify.send import hurry
from ml_metrics.notify.silence import hold_silence
from ml_metrics.notify.trials import Start

if TYPE_CHECKING:
    from ml_metrics.config.definition import TestDefinition
    from ml_metrics.model import Run
    from ml_metrics.notify.decide import Decision
    from ml_metrics.notify.mail_settings import MailSettings
    from ml_metrics.notify.outgoing import Posted
    from ml_metrics.run_state import RunState
    from ml_metrics.warehouse import Warehouse

log = logger_of(__name__)

DECISION_SECONDS = 60.0
"""How long a gate waits for the warehouse before it decides without it."""
SILENCE_SECONDS = 10.0
COUNT_SECONDS = 15.0
EARLIER_SECONDS = 15.0
"""How long a gate may take to record earlier messages about its test."""


@dataclass(frozen=True, slots=True)
class RunNotifier:
    """Decides on the messages of one run, and writes them."""

    run: Run
    state: RunState
    warehouse: Warehouse | None
    """None if it cannot be opened."""
    mail: MailSettings

    def post_due(self, test: TestDefinition, seconds: float = DECISION_SECONDS) -> Posted | None:
        """Decide which message is due at the end of the run, and write it. None if none is due.

        Raises:
            AlertError: the message can be written nowhere.
        """
        undecided = False
        try:
            self._record_earlier(seconds)
            decision, undecided = self._decide(test, seconds)
        except Exception as error:  # any failure must still lead to a message
            log.exception("the message about this run could not be composed")
            decision = self._without_warehouse().unreadable(test, error)
        posted = self._post(decision) if decision else None
        if decision is not None and decision.incident is not None and decision.incident.kind == "report":
            self._count_broken_tests()
        self._post_result(test)
        try:
            self._unmark(undecided=undecided)
        except StorageError as error:
            log.warning("a sender will look at this run again: %s", error)
        return posted

    def post_overdue(
        self, since: str, owner: str, emails: tuple[str, ...], start: Start | None = None
    ) -> Posted | None:
        """Write the message that the run has not finished in time. `start` is how a trial was started."""
        decision = self._without_warehouse().overdue(since, owner, emails, start)
        return None if decision is None else self._post(decision)

    def hurry(self, posted: Posted, seconds: float) -> None:
        """Send a message at once, if this process wrote it."""
        hurry(posted, self.mail, self.warehouse, seconds)

    def hold_silence(self, test: TestDefinition) -> None:
        """Add conditions that no longer decide to the next digest. A failure to do so is logged."""
        warehouse = self.warehouse
        if warehouse is None or Start.of(self.state) is not None:
            return
        try:
            now = datetime.now(UTC)
            in_time(lambda: hold_silence(test, self.run, warehouse, self.mail, now), SILENCE_SECONDS, "the warehouse")
        except Exception as error:  # noqa: BLE001  (the message about the run is written)
            log.warning("the conditions that do not decide are unknown: %s: %s", type(error).__name__, error)

    def _post_result(self, test: TestDefinition) -> None:
        """Write the result for tracking servers. No failure of that changes the run or its alert."""
        try:
            post_result(test, self.run, self.state, self.mail, self.warehouse)
        except Exception as error:  # noqa: BLE001  (the message about the run is written)
            log.warning("no tracking server has the result of this run: %s: %s", type(error).__name__, error)

    def _record_earlier(self, seconds: float) -> None:
        """Record earlier messages about this test whose writers could not record them."""
        warehouse, (of_test, _, _) = self.warehouse, self.state.folder.path.rstrip("/").rpartition("/")
        if warehouse is None:
            return
        try:
            in_time(
                lambda: record_waiting(of_test, self.mail.markers, warehouse),
                min(seconds / 2, EARLIER_SECONDS),
                "the warehouse",
            )
        except Exception as error:  # noqa: BLE001  (an earlier message says nothing about the result of this run)
            log.warning("earlier messages about this test may be unknown: %s: %s", type(error).__name__, error)

    def _count_broken_tests(self) -> None:
        """Report a mass failure at once, if this test makes it one. A failure to do so is left to the senders."""
        warehouse = self.warehouse
        if warehouse is None:
            return
        try:
            now = datetime.now(UTC)
            mass = in_time(lambda: post_mass_failure(warehouse, self.mail, now), COUNT_SECONDS, "the warehouse")
            if mass is not None:
                hurry(mass, self.mail, warehouse)
        except Exception as error:  # noqa: BLE001  (the message about the run is written)
            log.warning("whether many tests fail is unknown: %s: %s", type(error).__name__, error)

    def _decide(self, test: TestDefinition, seconds: float) -> tuple[Decision | None, bool]:
        """Return the decision, and whether senders have to decide about a recovery: the warehouse is unreachable."""
        if self.warehouse is not None:
            messages = RunMessages(self.run, self.state.strict(), self.warehouse, self.mail)
            try:
                return in_time(lambda: messages.due(test), seconds, "the warehouse"), False
            except MlMetricsError as error:
                log.warning("deciding without the state of incidents: %s", error)
        without = self._without_warehouse()
        return without.due(test), without.may_recover()

    def _unmark(self, *, undecided: bool) -> None:
        """Tell senders that this gate is done, or that they have to decide whether the run ends an incident."""
        markers, folder = self.mail.markers, self.state.folder.path
        if undecided:
            log.warning("a sender will decide whether this run ends an incident")
            markers.add_run(self.run.key, folder, undecided=True)
        else:
            markers.remove(self.run.key)

    def _without_warehouse(self) -> RunMessages:
        return RunMessages(self.run, self.state.strict(), None, self.mail)

    def _post(self, decision: Decision) -> Posted:
        return post(
            decision.message,
            mail=self.mail,
            warehouse=self.warehouse,
            run_folder=self.state.folder.path,
            held_because=decision.held_because,
            incident=decision.incident,
            ended=decision.ended,
        )
