"""The message about a trial: to the user who started it, on channels for mails, and never about an incident."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ml_metrics.alerts.compose import compose_notice
from ml_metrics.alerts.message import MessageKind, Notice
from ml_metrics.alerts.render import one_line
from ml_metrics.alerts.routing import channels_for
from ml_metrics.config.load import load_test
from ml_metrics.config.trial import NOTIFY, Usual, addresses_in, trial_of
from ml_metrics.errors import MlMetricsError
from ml_metrics.experiments.run_ids import experiment_of
from ml_metrics.log_lines import logger_of
from ml_metrics.reports.trial import NO_EFFECT, buttons_of, trial_notice

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ml_metrics.alerts.message import Message
    from ml_metrics.config.definition import TestDefinition
    from ml_metrics.model import Run
    from ml_metrics.notify.mail_settings import MailSettings
    from ml_metrics.run_state import RunState
    from ml_metrics.warehouse import Warehouse

log = logger_of(__name__)

HOW_TO_GET_MAILS = (
    "fill in `notify` in the trigger form, use a mail address as name in Airflow, or set `[ml_metrics] trial_domain`"
)
MAX_LOG_LINE_LENGTH = 1000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")


@dataclass(frozen=True, slots=True)
class Start:
    """How a trial was started."""

    changed: tuple[str, ...]
    user: str = ""
    addresses: tuple[str, ...] = ()
    """The addresses that the user gave."""

    @classmethod
    def of(cls, state: RunState) -> Start | None:
        """Return how a run that has a folder was started; None if it is regular, or if its folder cannot be read."""
        try:
            if not state.trial:
                return None
            return cls(state.trial, state.started_by, state.notify)
        except MlMetricsError as error:
            log.warning("it is unknown whether this run is a trial: %s", error)
            return None

    @classmethod
    def planned(cls, dag_run: Mapping[str, Any], test: TestDefinition | None) -> Start | None:
        """Return how a run without a folder was started, from Airflow's record of it; None if it is regular.

        Without the test's definition, only another image or command is known to be a change.
        """
        conf = dag_run.get("conf") or {}
        usual = Usual()
        if test is not None:
            defaults = {name: param.default for name, param in test.params.items()}
            usual = Usual(test.image, tuple(test.command), tuple(test.args), defaults)
        changed = trial_of(str(dag_run.get("run_type") or ""), conf, usual)
        if not changed:
            return None
        given = None if NOTIFY in usual.params else conf.get(NOTIFY)
        return cls(changed, str(dag_run.get("triggering_user_name") or ""), addresses_in(given))

    def recipients(self, domain: str) -> tuple[str, ...]:
        """Return the given addresses, else that of the user, as far as it is known."""
        if self.addresses:
            return self.addresses
        domain = domain.strip().removeprefix("@")
        if "@" not in self.user and domain and _NAME.fullmatch(self.user):
            return (f"{self.user}@{domain}",)
        return found if (found := addresses_in(self.user)) == (self.user,) else ()


def start_in(state: RunState, test: str, dag_run: Mapping[str, Any], config_root: str) -> Start | None:
    """Return how a run was started, whether or not it has a folder; None if it is regular."""
    try:
        begun = state.has_begun
    except MlMetricsError:
        begun = False
    if begun:
        return Start.of(state)
    try:
        definition = load_test(config_root, test)
    except MlMetricsError:
        definition = None  # it is defined in Python, or its file is broken
    return Start.planned(dag_run, definition)


def trial_message(  # noqa: PLR0913  (the sources of the message)
    test: TestDefinition,
    run: Run,
    state: RunState,
    start: Start,
    *,
    warehouse: Warehouse | None,
    mail: MailSettings,
) -> Message | None:
    """Return the message about a trial that has ended; None if nobody can receive it."""
    notice = trial_notice(
        test, run, state, warehouse=warehouse, dashboard_url=mail.dashboard_url, log_lines=mail.log_lines
    )
    return _message(run, notice, start, mail, mail.sender_of(test))


def trial_notification(run: Run, start: Start, mail: MailSettings, event: str, sentence: str) -> Message | None:
    """Return a message about a trial whose verdict is unknown; None if nobody can receive it."""
    notice = Notice(
        headline=f"trial of {run.test} {event}",
        sentences=(sentence, NO_EFFECT),
        buttons=buttons_of(run, mail.dashboard_url),
        test=run.test,
        run_key=run.key,
    )
    return _message(run, notice, start, mail, mail.sender)


def _message(run: Run, notice: Notice, start: Start, mail: MailSettings, sender: str) -> Message | None:
    for line in (notice.headline, *notice.sentences, *(f"{item.name}: {item.value}" for item in notice.items)):
        log.info("%s", one_line(line, MAX_LOG_LINE_LENGTH))
    if experiment_of(run.run_id):
        log.info("nobody is notified about this trial: the comparison or search that made it has its own answer")
        return None
    recipients = start.recipients(mail.trial_domain)
    if not recipients:
        log.warning("nobody is notified about this trial: %s", HOW_TO_GET_MAILS)
        return None
    if not channels_for(mail.channels, MessageKind.TRIAL, ""):
        log.warning("nobody is notified about this trial: `[ml_metrics] channels` has no channel for mails")
        return None
    return compose_notice(f"{run.key}-{MessageKind.TRIAL}", MessageKind.TRIAL, notice, recipients, sender)
