"""Decides whether a run needs a message, and composes it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from ml_metrics.alerts.compose import compose
from ml_metrics.alerts.message import MessageKind, Problem
from ml_metrics.alerts.message_folder import MessageFolder
from ml_metrics.alerts.outgoing import IncidentChange
from ml_metrics.alerts.policy import CAN_WAIT, Limits, due_notification
from ml_metrics.errors import MlMetricsError, StorageError, UnreadableInputError
from ml_metrics.log_lines import logger_of
from ml_metrics.model import Outcome
from ml_metrics.notify.outgoing import known_names
from ml_metrics.notify.together import Together
from ml_metrics.notify.trials import Start, trial_message, trial_notification
from ml_metrics.reports import GATE, OVERDUE, metric_of, minimal_report, problems_of, report_of
from ml_metrics.reports.causes import cause_of
from ml_metrics.reports.cost import cost_of_incident
from ml_metrics.reports.nodes import NodeOfRun

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ml_metrics.alerts.message import Message
    from ml_metrics.alerts.policy import Notification
    from ml_metrics.config.definition import TestDefinition
    from ml_metrics.model import Run
    from ml_metrics.notify.mail_settings import MailSettings
    from ml_metrics.reports import Problems
    from ml_metrics.run_state import RunState
    from ml_metrics.warehouse import Incident, Warehouse

log = logger_of(__name__)

HOUR = timedelta(hours=1)
IN_UPDATES = "Other tests that fail for it within two hours are reported together."


@dataclass(frozen=True, slots=True)
class Decision:
    """A message that is due."""

    message: Message
    held_because: str = ""
    """Why it waits for the digest; empty if it is sent at once."""
    incident: IncidentChange | None = None
    """What it changes about the incident of its test."""
    ended: str = ""
    """The incident of its test that ended last: a message that opened it is no longer the same message."""


@dataclass(frozen=True, slots=True)
class RunMessages:
    """The messages about one run."""

    run: Run
    state: RunState
    warehouse: Warehouse | None
    """None if it is unreachable: repeating a message is better than sending none."""
    mail: MailSettings

    def due(self, test: TestDefinition) -> Decision | None:
        """Return the message that is due at the end of the run, or None."""
        if (start := Start.of(self.state)) is not None:
            return _decision(trial_message(test, self.run, self.state, start, warehouse=self.warehouse, mail=self.mail))
        gate, found = self.state.gate, problems_of(self.state)
        passed = gate is not None and not gate.reasons
        problems = replace(found, urgent={}) if passed else found
        incident = self.warehouse.incidents.find_open(self.run.test) if self.warehouse else None
        recovers = passed and not self._leaves_open(incident)
        notification = self._due_notification(test, problems, incident, passed=recovers)
        is_warning = notification is not None and notification.kind is MessageKind.WARNING
        if notification is None or (is_warning and set(problems.warnings) <= self._stated()):
            log.info("no new alert for %s", self.run.test)
            return None
        reported = set(incident.reported) if incident else set()
        new_first = dict(sorted(problems.urgent.items(), key=lambda problem: problem[0] in reported))
        node = NodeOfRun(self.run, self.state.workload, self.warehouse) if self.warehouse else None
        cause = self._cause(test, notification.kind, set(problems.urgent) - reported, node)
        held_because = self._held_because(notification, cause, incident)
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
            node=node,
        )
        if cause:
            report = replace(report, sentences=(*report.sentences, f"Cause: {cause}. {IN_UPDATES}"))
        message = compose(report, self.mail.recipients_of(test.emails), self.mail.sender_of(test))
        if is_warning:
            return Decision(message, held_because)
        change = _incident_change(notification.kind, problems.urgent, incident)
        cost = "" if change.kind == "close" else cost_of_incident(self.state, problems.urgent)
        change = replace(change, at=self._moment(), cause=cause, cost=cost)
        return Decision(message, held_because, change, self._ended())

    def _stated(self) -> set[str]:
        """Return the names of the problems that earlier messages about this run state."""
        folder, stated = MessageFolder.of_run(self.state.folder.path), set()
        for name in known_names(folder):
            try:
                message = folder.read(name).message
            except (StorageError, UnreadableInputError) as error:
                log.warning("an earlier message about this run is unknown: %s", error)
            else:
                stated |= {one.name for one in (*message.reasons, *message.warnings)}
        return stated

    def may_recover(self) -> bool:
        """Whether the run ends the incident of its test, if one is open."""
        gate = self.state.gate
        return gate is not None and not gate.reasons and Start.of(self.state) is None

    def overdue(self, since: str, owner: str, emails: Sequence[str], start: Start | None = None) -> Decision | None:
        """Return the message that the run has not finished in time. Its end is reported like that of any run.

        `start` is how a trial was started: only its user is notified.
        """
        queued = f" since {since}" if since else ""
        sentence = (
            f"Run {self.run.run_id} of test `{self.run.test}` has been waiting or running{queued}, longer than "
            f"allowed. {self._progress()}"
        )
        if start is not None:
            return _decision(trial_notification(self.run, start, self.mail, "has not finished", sentence))
        problem = Problem(f"{OVERDUE}:", "the run has not finished", sentence)
        report = minimal_report(self.run, owner, MessageKind.OVERDUE, problem, self.mail.dashboard_url)
        message = compose(report, self.mail.recipients_of(tuple(emails)), self.mail.sender)
        return Decision(message, incident=IncidentChange("report", (problem.name,)))

    def unreadable(self, test: TestDefinition, error: Exception) -> Decision | None:
        """Return the message that the documents of the run cannot be read."""
        sentence = f"The result of run {self.run.run_id} is unknown ({type(error).__name__}): see its task log"
        change: IncidentChange | None = IncidentChange("report", (GATE,))
        try:
            start = Start.of(self.state)
        except MlMetricsError:
            start = change = None  # it may be a trial, which opens no incident
        if start is not None:
            return _decision(trial_notification(self.run, start, self.mail, "has an unknown result", sentence))
        problem = Problem(GATE, "its documents cannot be read", sentence)
        report = minimal_report(self.run, test.owner, MessageKind.BROKEN, problem, self.mail.dashboard_url)
        message = compose(report, self.mail.recipients_of(test.emails), self.mail.sender_of(test))
        return Decision(message, incident=change)

    def _cause(self, test: TestDefinition, kind: MessageKind, news: set[str], node: NodeOfRun | None) -> str:
        """Return the cause of new problems; empty if nothing is known. A failure to find it is logged."""
        if kind not in {MessageKind.BROKEN, MessageKind.WORSE}:
            return ""
        try:
            return cause_of(
                test, self.run, self.state, news, warehouse=self.warehouse, log_lines=self.mail.log_lines, node=node
            )
        except MlMetricsError as error:
            log.warning("the cause of the problems is unknown: %s", error)
            return ""

    def _held_because(self, notification: Notification, cause: str, incident: Incident | None) -> str:
        """Return why the message waits: for the digest, or for one message about several tests."""
        alone = notification.held_because
        if self.warehouse is None or alone in CAN_WAIT:
            return alone
        together = Together(self.run, self.warehouse, self.mail, datetime.now(UTC))
        return together.reason_to_hold(notification.kind, cause, incident) or alone

    def _moment(self) -> str:
        """Return the time of this decision by the clock of the test's incidents; empty if it is unknown."""
        return self.warehouse.incidents.moment(self.run.test).isoformat() if self.warehouse else ""

    def _leaves_open(self, incident: Incident | None) -> bool:
        """Whether the run was not judged, and the incident is about metrics: the run does not show that they recovered.

        An incident that is only about the job or its tasks ends with a run that is recorded.
        """
        judgement = self.state.judgement
        recorded = judgement is not None and judgement.outcome is Outcome.RECORDED
        return recorded and incident is not None and any(map(metric_of, incident.reported))

    def _progress(self) -> str:
        try:
            started = self.state.recorded_workload is not None
        except MlMetricsError as error:
            return f"It is unknown whether the workload has started: {error}."
        if started:
            return "The workload has started."
        return "Its folder does not show that the workload has started: was a worker, pool slot and node available?"

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
        counted = self.warehouse.messages if self.warehouse else None
        mails, about_test = counted.count(test.owner, self.run.test, now - HOUR) if counted else (0, 0)
        notification = due_notification(
            problems.urgent,
            problems.warnings,
            reported=incident.reported if incident else None,
            acknowledged=incident is not None and incident.acknowledged_by is not None,
            passed=passed,
            limits=Limits(bool(quarantine), mails, about_test, self.mail.mails_per_hour),
        )
        if notification is not None and notification.kind is MessageKind.RECOVERED and not self._is_newest():
            log.info("an older run of %s passed; only the newest run closes the incident", self.run.test)
            return None
        return notification

    def _ended(self) -> str:
        """Return the incident that ended last, for the newest run of the test: an old one opens none again."""
        return self.warehouse.incidents.last_closed(self.run.test) if self.warehouse and self._is_newest() else ""

    def _quarantine(self, test: TestDefinition, now: datetime) -> str:
        """Return the end and reason of the quarantine, set in the test file or on the dashboard; empty if none."""
        if test.quarantine is not None and test.quarantine.holds(now):
            return f"until {test.quarantine.until}: {test.quarantine.reason}"
        row = self.warehouse.quarantines.newest().get(self.run.test) if self.warehouse else None
        return f"until {row.last_day} by {row.by}: {row.reason}" if row and row.holds(now) else ""

    def _is_newest(self) -> bool:
        """Whether no run of the test ended after this one. An old run may be judged again."""
        ended = self.state.workload.ended_at
        newest = next(iter(self.warehouse.runs.newest(self.run.test, 1)), None) if self.warehouse else None
        return newest is None or ended is None or (newest.timestamp, newest.uuid) <= (ended, self.run.key)


def _decision(message: Message | None) -> Decision | None:
    """Return the decision to send a message about a trial: it changes no incident and does not wait."""
    return None if message is None else Decision(message)


def _incident_change(
    kind: MessageKind, problems: Sequence[str] | dict[str, str], incident: Incident | None
) -> IncidentChange:
    """Return what the message changes, so that the next run of this test is compared with it."""
    opened_by = incident.opened_by if incident else ""
    if kind is MessageKind.RECOVERED:
        return IncidentChange("close", incident=opened_by)
    return IncidentChange("report", tuple(sorted(problems)), incident=opened_by)
