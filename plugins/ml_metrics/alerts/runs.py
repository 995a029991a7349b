"""The message about one run: decided and written by the gate, and sent at once by its callback.

The warehouse may be slow, hang or be unreachable. Every use of it has a time limit, after which the message is decided
without the state of incidents. Only whether a passing run ends an incident cannot be decided that way: senders decide
it later.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from ml_metrics.alerts.causes import NodeOfRun, cause_of, cause_of_movement, explain_earlier, moved_together
from ml_metrics.alerts.compose import compose
from ml_metrics.alerts.digest import hold_silence, is_in_quarantine
from ml_metrics.alerts.mass_failures import post_mass_failure, reason_to_hold
from ml_metrics.alerts.message import Message, MessageKind, Problem
from ml_metrics.alerts.night import is_beyond_budget
from ml_metrics.alerts.outbox.documents import IncidentChange, MessageFolder
from ml_metrics.alerts.outbox.post import Posted, hurry, known_names, post, record_waiting
from ml_metrics.alerts.policy import BUDGET, CAN_WAIT, due_notification
from ml_metrics.alerts.problems import GATE, OVERDUE, Problems, metric_of, problems_of
from ml_metrics.alerts.report import cost_of_incident, minimal_report, report_of
from ml_metrics.alerts.results import post_result
from ml_metrics.alerts.settings import MailSettings
from ml_metrics.alerts.trials import Start, trial_message, trial_notification
from ml_metrics.config.definition import TestDefinition
from ml_metrics.core.deadline import in_time
from ml_metrics.core.errors import FailureLogged, MlMetricsError, StorageError, UnreadableInputError
from ml_metrics.core.model import Outcome, Run
from ml_metrics.core.text import logger_of
from ml_metrics.core.values import short_digests

if TYPE_CHECKING:
    from ml_metrics.judge import Movement
    from ml_metrics.pipeline import RunState
    from ml_metrics.warehouse import Incident, StoredMessage, Warehouse


log = logger_of(__name__)

DECISION_SECONDS = 60.0
"""How long a gate waits for the warehouse before it decides without it."""
SILENCE_SECONDS = 10.0
COUNT_SECONDS = 15.0
EARLIER_SECONDS = 15.0
"""How long a gate may take to record earlier messages about its test."""


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
    summarises: tuple[str, ...] = ()
    """The key of the message that the alert budget held back, and that this one tells."""


@dataclass(frozen=True, slots=True)
class RunNotifier:
    """Decides on the messages of one run, and writes them."""

    run: Run
    state: RunState
    warehouse: Warehouse | None
    """None if it is unreachable: repeating a message is better than sending none."""
    mail: MailSettings

    def post_due(self, test: TestDefinition, seconds: float = DECISION_SECONDS) -> Posted | None:
        """None if no message is due at the end of the run. Raises AlertError if it can be written nowhere."""
        undecided, mail, warehouse = False, self.mail, self.warehouse
        try:
            if warehouse is not None:  # earlier messages about this test whose writers could not record them
                of_test = self.state.folder.path.rstrip("/").rpartition("/")[0]
                limit = min(seconds / 2, EARLIER_SECONDS)
                with FailureLogged(log.warning, "earlier messages about this test may be unknown"):
                    in_time(lambda: record_waiting(of_test, mail.markers, warehouse), limit, "the warehouse")
            decision, undecided = self._decide(test, seconds)
        except Exception as error:  # any failure must still lead to a message
            log.exception("the message about this run could not be composed")
            decision = self._without_warehouse().unreadable(test, error)
        posted = self._post(decision)
        if decision and decision.incident is not None and decision.incident.kind == "report" and warehouse is not None:
            # senders report a mass failure as well
            with FailureLogged(log.warning, "whether many tests fail is unknown"):
                now = datetime.now(UTC)
                mass = in_time(lambda: post_mass_failure(warehouse, mail, now), COUNT_SECONDS, "the warehouse")
                if mass is not None:
                    hurry(mass, mail, warehouse)
        with FailureLogged(log.warning, "no tracking server has the result of this run"):
            post_result(test, self.run, self.state, mail, warehouse)
        try:
            if undecided:
                log.warning("a sender will decide whether this run ends an incident")
                mail.markers.add_run(self.run.key, self.state.folder.path, undecided=True)
            else:
                mail.markers.remove(self.run.key)
        except StorageError as error:
            log.warning("a sender will look at this run again: %s", error)
        return posted

    def post_overdue(
        self, since: str, owner: str, emails: tuple[str, ...], start: Start | None = None
    ) -> Posted | None:
        """Write the message that the run has not finished in time. `start` is how a trial was started."""
        return self._post(self._without_warehouse().overdue(since, owner, emails, start))

    def hurry(self, posted: Posted, seconds: float) -> None:
        hurry(posted, self.mail, self.warehouse, seconds)

    def hold_silence(self, test: TestDefinition) -> None:
        """Add conditions that no longer decide to the next digest. A failure to do so is logged."""
        warehouse, now = self.warehouse, datetime.now(UTC)
        if warehouse is not None and Start.of(self.state) is None:
            with FailureLogged(log.warning, "the conditions that do not decide are unknown"):
                in_time(
                    lambda: hold_silence(test, self.run, warehouse, self.mail, now), SILENCE_SECONDS, "the warehouse"
                )

    def _decide(self, test: TestDefinition, seconds: float) -> tuple[Decision | None, bool]:
        """The decision, and whether senders have to decide about a recovery: the warehouse is unreachable."""
        if self.warehouse is not None:
            strict = replace(self, state=self.state.strict())
            try:
                return in_time(lambda: strict.due(test), seconds, "the warehouse"), False
            except MlMetricsError as error:
                log.warning("deciding without the state of incidents: %s", error)
        without = self._without_warehouse()
        gate = without.state.gate
        may_recover = gate is not None and not gate.reasons and Start.of(without.state) is None
        return without.due(test), may_recover

    def _without_warehouse(self) -> RunNotifier:
        return replace(self, state=self.state.strict(), warehouse=None)

    def _post(self, decision: Decision | None) -> Posted | None:
        if decision is None:
            return None
        return post(
            decision.message,
            mail=self.mail,
            warehouse=self.warehouse,
            run_folder=self.state.folder.path,
            held_because=decision.held_because,
            incident=decision.incident,
            summarises=decision.summarises,
            ended=decision.ended,
        )

    def due(self, test: TestDefinition) -> Decision | None:
        if (start := Start.of(self.state)) is not None:
            return _decision(trial_message(test, self.run, self.state, start, warehouse=self.warehouse, mail=self.mail))
        warehouse, name = self.warehouse, self.run.test
        gate, problems = self.state.gate, problems_of(self.state)
        passed = gate is not None and not gate.reasons
        if passed:
            problems = replace(problems, urgent={})
        incident = warehouse.incidents.find_open(name) if warehouse else None
        marked = self._held_by_budget(incident)
        # an alarm that the budget held back is sent as if it were new, as soon as it has lasted long enough
        known = None if marked and problems.urgent else incident
        notification = self._notification(test, problems, known, passed=passed and not self._leaves_open(incident))
        kind, held_because = notification or (None, "")
        is_warning = kind is MessageKind.WARNING
        if kind is None or (is_warning and set(problems.warnings) <= self._stated()):
            log.info("no new alert for %s", name)
            return None
        reported = set(known.reported) if known else set()
        news = set(problems.urgent) - reported
        node = NodeOfRun(self.run, self.state.workload, warehouse) if warehouse else None
        cause, together = self._cause(test, kind, news, node)
        if warehouse is not None and held_because not in CAN_WAIT:
            now = datetime.now(UTC)
            many = reason_to_hold(self.run, kind, cause, incident, warehouse, self.mail, now)
            held_because = many or held_because
        if marked is not None and kind is MessageKind.RECOVERED:
            held_because = BUDGET
        elif not held_because and not cause and self._is_beyond_budget(test, news):
            held_because = BUDGET
            if marked is not None and incident is not None and set(problems.urgent) <= set(incident.reported):
                log.info("the alert budget still holds %s back", name)
                return None
        report = report_of(
            test,
            self.run,
            self.state,
            kind,
            problems.warnings if is_warning else problems.urgent,
            warehouse=warehouse,
            dashboard_url=self.mail.dashboard_url,
            log_lines=self.mail.log_lines,
            warned={} if is_warning else problems.warnings,
            incident=incident,
            node=node,
        )
        added = [f"The alert budget held it back since {marked.timestamp:%Y-%m-%d}."] if marked is not None else []
        if cause:
            added += [
                f"Cause: {short_digests(cause)}. Other tests that fail for it within two hours are reported together."
            ]
            added += [f"{together}."] if together else []
        report = replace(report, sentences=(*report.sentences, *added))
        message = compose(report, self.mail.recipients_of(test.emails), self.mail.sender_of(test))
        if is_warning:
            return Decision(message, held_because)
        broken = {} if kind is MessageKind.RECOVERED else problems.urgent
        change = IncidentChange(
            "report" if broken else "close",
            tuple(sorted(broken)),
            cause=cause,
            incident=incident.opened_by if incident else "",
            # the time of this decision by the clock of the test's incidents
            at=warehouse.incidents.moment(name).isoformat() if warehouse else "",
            cost=cost_of_incident(self.state, broken),
        )
        # an old run opens no incident again
        ended = warehouse.incidents.last_closed(name) if warehouse and self._is_newest() else ""
        return Decision(message, held_because, change, ended, (marked.message,) if marked else ())

    def overdue(self, since: str, owner: str, emails: Sequence[str], start: Start | None = None) -> Decision | None:
        """The end of the run is reported like any. `start` is how a trial was started: only its user is notified."""
        queued = f" since {since}" if since else ""
        never = "Its folder does not show that the workload has started: was a worker, pool slot and node available?"
        try:
            progress = "The workload has started." if self.state.recorded_workload is not None else never
        except MlMetricsError as error:
            progress = f"It is unknown whether the workload has started: {error}."
        sentence = (
            f"Run {self.run.run_id} of test `{self.run.test}` has been waiting or running{queued}, longer than "
            f"allowed. {progress}"
        )
        if start is not None:
            return _decision(trial_notification(self.run, start, self.mail, "has not finished", sentence))
        problem = Problem(f"{OVERDUE}:", "the run has not finished", sentence)
        report = minimal_report(self.run, owner, MessageKind.OVERDUE, problem, self.mail.dashboard_url)
        message = compose(report, self.mail.recipients_of(tuple(emails)), self.mail.sender)
        return Decision(message, incident=IncidentChange("report", (problem.name,)))

    def unreadable(self, test: TestDefinition, error: Exception) -> Decision | None:
        sentence = f"The result of run {self.run.run_id} is unknown ({type(error).__name__}): see its task log"
        if (start := Start.of(self.state)) is not None:
            return _decision(trial_notification(self.run, start, self.mail, "has an unknown result", sentence))
        problem = Problem(GATE, "its documents cannot be read", sentence)
        report = minimal_report(self.run, test.owner, MessageKind.BROKEN, problem, self.mail.dashboard_url)
        message = compose(report, self.mail.recipients_of(test.emails), self.mail.sender_of(test))
        return Decision(message, incident=IncidentChange("report", (problem.name,)))

    def _stated(self) -> set[str]:
        """The names of the problems that earlier messages about this run have."""
        folder, stated = MessageFolder.of_run(self.state.folder.path), set()
        for name in known_names(folder):
            try:
                message = folder.read(name).message
            except (StorageError, UnreadableInputError) as error:
                log.warning("an earlier message about this run is unknown: %s", error)
            else:
                stated |= {one.name for one in (*message.reasons, *message.warnings)}
        return stated

    def _cause(
        self, test: TestDefinition, kind: MessageKind, news: set[str], node: NodeOfRun | None
    ) -> tuple[str, Movement | None]:
        """The cause of new problems, and what moved the test with others, if that is known.

        A failure to find the cause is logged.
        """
        if kind not in {MessageKind.BROKEN, MessageKind.WORSE}:
            return "", None
        warehouse, lines = self.warehouse, self.mail.log_lines
        try:
            together = moved_together(self.run, self.state, news, warehouse) if warehouse is not None else None
            shared = cause_of_movement(together) if together is not None else ""
            cause = cause_of(
                test, self.run, self.state, news, warehouse=warehouse, log_lines=lines, node=node, shared=shared
            )
            if together is not None and warehouse is not None and cause == shared:
                explain_earlier(together, self.run.test, warehouse)
        except MlMetricsError as error:
            log.warning("the cause of the problems is unknown: %s", error)
            return "", None
        return cause, together if cause == shared else None

    def _held_by_budget(self, incident: Incident | None) -> StoredMessage | None:
        """The message that opened an incident, if the alert budget holds it back."""
        if incident is None or self.warehouse is None:
            return None
        found = self.warehouse.messages.by_key([incident.opened_by], incident.opened_at - timedelta(days=1))
        opened = found.get(incident.opened_by)
        return opened if opened is not None and opened.held_because == BUDGET else None

    def _is_beyond_budget(self, test: TestDefinition, news: set[str]) -> bool:
        if self.warehouse is None or not self.mail.alert_budgets:
            return False
        verdicts = {one.metric: one for one in self.state.judgement.verdicts} if self.state.judgement else {}
        about = [verdicts.get(metric_of(problem)) for problem in news]
        ended = self.state.workload.ended_at or datetime.now(UTC)
        return is_beyond_budget(self.run, test.owner, about, self.warehouse, self.mail.alert_budgets, ended)

    def _leaves_open(self, incident: Incident | None) -> bool:
        """Whether the run was not judged, and the incident is about metrics: the run does not show that they recovered.

        An incident that is only about the job or its tasks ends with a run that is recorded.
        """
        judgement = self.state.judgement
        recorded = judgement is not None and judgement.outcome is Outcome.RECORDED
        return recorded and incident is not None and any(map(metric_of, incident.reported))

    def _notification(
        self, test: TestDefinition, problems: Problems, incident: Incident | None, *, passed: bool
    ) -> tuple[MessageKind, str] | None:
        now, warehouse = datetime.now(UTC), self.warehouse
        if is_in_quarantine(test, warehouse, now):
            log.info("%s is in quarantine", self.run.test)
            if warehouse is not None:
                # a test that still fails after the quarantine then opens a new incident
                warehouse.incidents.close(self.run.test, self.run.key)
            return None
        since = now - timedelta(hours=1)
        notification = due_notification(
            problems.urgent,
            problems.warnings,
            reported=incident.reported if incident else None,
            acknowledged=incident is not None and incident.acknowledged_by is not None,
            passed=passed,
            mails=warehouse.messages.count(test.owner, self.run.test, since) if warehouse else (0, 0),
            mails_per_hour=self.mail.mails_per_hour,
        )
        if notification is not None and notification[0] is MessageKind.RECOVERED and not self._is_newest():
            log.info("an older run of %s passed; only the newest run closes the incident", self.run.test)
            return None
        return notification

    def _is_newest(self) -> bool:
        """Whether no run of the test ended after this one. An old run may be judged again."""
        ended = self.state.workload.ended_at
        newest = next(iter(self.warehouse.runs.newest(self.run.test, 1)), None) if self.warehouse else None
        return newest is None or ended is None or (newest.timestamp, newest.uuid) <= (ended, self.run.key)


def _decision(message: Message | None) -> Decision | None:
    """The decision to send a message about a trial: it changes no incident and does not wait."""
    return None if message is None else Decision(message)
