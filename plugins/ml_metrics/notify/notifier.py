"""Decides whether a run needs a message, sends it, and records that it was sent."""

from __future__ import annotations

import hashlib
import logging
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from ml_metrics.alerts.compose import compose
from ml_metrics.alerts.delivery import DeliveryState, deliver
from ml_metrics.alerts.message import MessageKind, Problem
from ml_metrics.alerts.policy import Limits, Notification, due_notification
from ml_metrics.errors import MlMetricsError
from ml_metrics.model import Outcome
from ml_metrics.notify.digest import CAN_WAIT, is_per_test
from ml_metrics.reports import GATE, OVERDUE, Problems, metric_of, minimal_report, problems_of, report_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ml_metrics.alerts.channels.channel import Channel
    from ml_metrics.alerts.message import Message
    from ml_metrics.config.definition import TestDefinition
    from ml_metrics.model import Run
    from ml_metrics.notify.mail_settings import MailSettings
    from ml_metrics.run_state import RunState
    from ml_metrics.warehouse import Incident, Warehouse

log = logging.getLogger(__name__)

HELD, DIGEST = "held", "digest"
"""The state and the channel of a message that waits for the digest."""
SENT_DOCUMENT = "told"
"""The document in the run folder that holds, by message and channel, what was sent."""
HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Notifier:
    """Sends the messages about one run."""

    run: Run
    state: RunState
    warehouse: Warehouse | None
    """None if it is unreachable."""
    mail: MailSettings

    def notify(self, test: TestDefinition) -> Notification | None:
        """Send the message that is due about this run and record it. Returns None if no message is due."""
        gate, found = self.state.gate, problems_of(self.state)
        passed = gate is not None and not gate.reasons
        problems = replace(found, urgent={}) if passed else found
        incident = self.warehouse.incidents.find_open(self.run.test) if self.warehouse else None
        recovers = passed and not self._leaves_open(incident)
        notification = self._due_notification(test, problems, incident, passed=recovers)
        is_warning = notification is not None and notification.kind is MessageKind.WARNING
        # an earlier message about this run included its warnings
        if notification is None or (is_warning and self._sent()):
            log.info("no new alert for %s", self.run.test)
            return None
        reported = set(incident.reported) if incident else set()
        new_first = dict(sorted(problems.urgent.items(), key=lambda problem: problem[0] in reported))
        report = report_of(
            test,
            self.run,
            self.state,
            notification.kind,
            problems.warnings if is_warning else new_first,
            warehouse=self.warehouse,
            dashboard_url=self.mail.dashboard_url,
            log_lines=self.mail.log_lines,
            warned={} if is_warning else problems.warnings,
            incident=incident,
        )
        message = compose(report, self.mail.recipients_of(test.emails), self.mail.sender_of(test))
        self.send(message, held_because=notification.held_because)
        if not is_warning:
            self._update_incident(notification.kind, problems.urgent)
        return notification

    def _leaves_open(self, incident: Incident | None) -> bool:
        """Whether the run was not judged, and the incident is about metrics: the run does not show that they recovered.

        An incident that is only about the job or its tasks ends with a run that is recorded.
        """
        judgement = self.state.judgement
        recorded = judgement is not None and judgement.outcome is Outcome.RECORDED
        return recorded and incident is not None and any(map(metric_of, incident.reported))

    def notify_overdue(self, since: str, owner: str, emails: Sequence[str]) -> None:
        """Report once that the run has not finished in time. Its end is reported like that of any run."""
        queued = f" since {since}" if since else ""
        sentence = (
            f"Run {self.run.run_id} of test `{self.run.test}` has been waiting or running{queued}, longer than "
            f"allowed. {self._progress()}"
        )
        problem = Problem(f"{OVERDUE}:", "the run has not finished", sentence)
        report = minimal_report(self.run, owner, MessageKind.OVERDUE, problem, self.mail.dashboard_url)
        self.send(compose(report, self.mail.recipients_of(tuple(emails)), self.mail.sender))
        self._update_incident(MessageKind.OVERDUE, {problem.name: sentence})

    def _progress(self) -> str:
        try:
            started = self.state.recorded_workload is not None
        except MlMetricsError as error:
            return f"It is unknown whether the workload has started: {error}."
        if started:
            return "The workload has started."
        return "The workload has not started: no worker, pool slot or node was available."

    def notify_unreadable(self, test: TestDefinition, error: Exception) -> None:
        """Report that the run's documents cannot be read."""
        sentence = f"The result of run {self.run.run_id} is unknown ({type(error).__name__}): see its task log"
        problem = Problem(GATE, "its documents cannot be read", sentence)
        report = minimal_report(self.run, test.owner, MessageKind.BROKEN, problem, self.mail.dashboard_url)
        self.send(compose(report, self.mail.recipients_of(test.emails), self.mail.sender_of(test)))

    def send(self, message: Message, *, held_because: str = "") -> None:
        """Deliver a message, or hold it for the digest: once on each channel, however often this is called.

        The result is recorded in the run folder as well, because the warehouse may be unreachable.
        """
        sent = self._sent()
        states = dict(sent.get(message.key, {}))
        if held_because and DIGEST not in states:
            log.info("%s: waits for the digest: %s", message.subject, held_because)
            self._record(message, [(DIGEST, HELD, 0, held_because)])
            states[DIGEST] = HELD
        channels = [
            channel for channel in self._channels(held_because) if states.get(channel.name) != DeliveryState.DELIVERED
        ]
        results = deliver(message, channels, self.mail.outbox, self.mail.clock)
        self._record(message, ((one.channel, one.state, one.tries, one.detail) for one in results))
        states |= {one.channel: str(one.state) for one in results}
        try:
            self.state.folder.write(SENT_DOCUMENT, {**sent, message.key: states})
        except MlMetricsError as error:
            log.warning("the sent messages cannot be recorded in the run folder: %s", error)

    def _channels(self, held_because: str) -> Sequence[Channel]:
        """The channels to use now. Those with an entry for each test are used beyond the hourly limit, too."""
        if not held_because:
            return self.mail.channels
        return [] if held_because in CAN_WAIT else [one for one in self.mail.channels if is_per_test(one)]

    def _sent(self) -> dict[str, dict[str, str]]:
        try:
            return self.state.folder.read(SENT_DOCUMENT) or {}
        except MlMetricsError as error:
            log.warning("earlier messages about this run are unknown: %s", error)
            return {}

    def _due_notification(
        self, test: TestDefinition, problems: Problems, incident: Incident | None, *, passed: bool
    ) -> Notification | None:
        now = datetime.now(UTC)
        quarantine = self._quarantine(test, now)
        if quarantine:
            log.info("%s is in quarantine %s", self.run.test, quarantine)
            if self.warehouse is not None:
                # a test that still fails after the quarantine then opens a new incident
                self.warehouse.incidents.close(self.run.test, self.run.key)
        mails = self.warehouse.deliveries.count(test.owner, now - HOUR) if self.warehouse else 0
        notification = due_notification(
            problems.urgent,
            problems.warnings,
            reported=incident.reported if incident else None,
            acknowledged=incident is not None and incident.acknowledged_by is not None,
            passed=passed,
            limits=Limits(bool(quarantine), mails, self.mail.mails_per_hour),
        )
        if notification is not None and notification.kind is MessageKind.RECOVERED and not self._is_newest():
            log.info("an older run of %s passed; only the newest run closes the incident", self.run.test)
            return None
        return notification

    def _quarantine(self, test: TestDefinition, now: datetime) -> str:
        """Return the end and reason of the quarantine, set in the test file or on the dashboard; empty if none."""
        if test.quarantine is not None and test.quarantine.holds(now):
            return f"until {test.quarantine.until}: {test.quarantine.reason}"
        row = self.warehouse.quarantines.newest().get(self.run.test) if self.warehouse else None
        return f"until {row.until:%Y-%m-%d %H:%M} by {row.by}: {row.reason}" if row and row.holds(now) else ""

    def _is_newest(self) -> bool:
        """Whether no run of the test ended after this one. An old run may be judged again."""
        ended = self.state.workload.ended_at
        newest = next(iter(self.warehouse.runs.newest(self.run.test, 1)), None) if self.warehouse else None
        return newest is None or newest.uuid == self.run.key or ended is None or newest.timestamp <= ended

    def _update_incident(self, kind: MessageKind, problems: Mapping[str, str]) -> None:
        """Record what was reported, so that the next run of this test is compared with it."""
        if self.warehouse is None:
            return
        if kind is MessageKind.RECOVERED:
            self.warehouse.incidents.close(self.run.test, self.run.key)
            return
        names = sorted(problems)
        fingerprint = hashlib.sha256("\n".join(names).encode()).hexdigest()[:16]
        self.warehouse.incidents.report(self.run.test, self.run.key, fingerprint=fingerprint, reasons=names)

    def _record(self, message: Message, states: Iterable[tuple[str, str, int, str]]) -> None:
        from ml_metrics.warehouse import Delivery

        if self.warehouse is None:
            return
        for channel, state, attempts, detail in states:
            delivery = Delivery(
                message=message.key,
                channel=channel,
                state=str(state),
                timestamp=datetime.now(UTC),
                test=message.test,
                run_key=message.run_key,
                occasion=str(message.kind),
                owner=message.owner,
                recipients=message.recipients,
                subject=message.subject,
                reasons=tuple(reason.sentence for reason in (*message.reasons, *message.warnings)),
                attempts=attempts,
                detail=detail,
            )
            try:
                self.warehouse.deliveries.record(delivery)
            except MlMetricsError as error:
                log.warning("the delivery on %s cannot be recorded: %s", channel, error)
