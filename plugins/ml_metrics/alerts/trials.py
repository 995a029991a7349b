"""The message about a trial: to the user who started it, on channels for mails, and never about an incident."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ml_metrics.alerts.compose import compose_notice
from ml_metrics.alerts.job import SHOWN_LINES, log_of
from ml_metrics.alerts.message import Fact, Message, MessageKind, Notice, page_of_run, page_of_test
from ml_metrics.alerts.metric import value_and_requirement
from ml_metrics.alerts.policy import channels_for
from ml_metrics.alerts.problems import problems_of
from ml_metrics.alerts.render import one_line
from ml_metrics.alerts.settings import MailSettings
from ml_metrics.config.definition import TestDefinition
from ml_metrics.config.loading import load_test
from ml_metrics.config.params import NOTIFY, TRIAL, Usual, addresses_in, trial_of
from ml_metrics.core.errors import MlMetricsError
from ml_metrics.core.model import JobStatus, Outcome, Run, Severity, StoredMetric, Verdict
from ml_metrics.core.text import logger_of
from ml_metrics.core.units import change, quantity
from ml_metrics.core.values import finite
from ml_metrics.judge import SECRET_NAME, Reference
from ml_metrics.pipeline.experiments import experiment_of

if TYPE_CHECKING:
    from ml_metrics.pipeline import RunState
    from ml_metrics.warehouse import Warehouse


log = logger_of(__name__)

MAX_VALUE_LENGTH = 200
MAX_SENTENCES = 10
NO_EFFECT = "No run is compared with a trial, and it opens no incident."
HOW_TO_GET_MAILS = (
    "fill in `notify` in the trigger form, use a mail address as name in Airflow, or set `[ml_metrics] trial_domain`"
)


@dataclass(frozen=True, slots=True)
class Start:
    """How a trial was started."""

    changed: tuple[str, ...]
    user: str = ""
    addresses: tuple[str, ...] = ()
    """The addresses that the user gave."""

    @classmethod
    def of(cls, state: RunState) -> Start | None:
        """How a run that has a folder was started; None if it is regular, or if its folder cannot be read."""
        try:
            if not state.trial:
                return None
            return cls(state.trial, state.started_by, state.notify)
        except MlMetricsError as error:
            log.warning("it is unknown whether this run is a trial: %s", error)
            return None

    @classmethod
    def planned(cls, dag_run: Mapping[str, Any], test: TestDefinition | None) -> Start | None:
        """None if the run is regular. Without `test`, only another image or command is known to be a change."""
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
        """The given addresses, else that of the user, as far as it is known."""
        if self.addresses:
            return self.addresses
        domain = domain.strip().removeprefix("@")
        if "@" not in self.user and domain and re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+-]*", self.user):
            return (f"{self.user}@{domain}",)
        return found if (found := addresses_in(self.user)) == (self.user,) else ()


def start_in(state: RunState, test: str, dag_run: Mapping[str, Any], config_root: str) -> Start | None:
    """How a run was started, whether or not it has a folder; None if it is regular."""
    with suppress(MlMetricsError):
        if state.has_begun:
            return Start.of(state)
    try:
        definition = load_test(config_root, test)
    except MlMetricsError:
        definition = None  # it is defined in Python, or its file is broken
    return Start.planned(dag_run, definition)


def trial_message(
    test: TestDefinition, run: Run, state: RunState, start: Start, *, warehouse: Warehouse | None, mail: MailSettings
) -> Message | None:
    """The message about a trial that has ended; None if nobody can receive it."""
    url, lines = mail.dashboard_url, mail.log_lines
    notice = trial_notice(test, run, state, warehouse=warehouse, dashboard_url=url, log_lines=lines)
    return _message(run, notice, start, mail, mail.sender_of(test))


def trial_notification(run: Run, start: Start, mail: MailSettings, event: str, sentence: str) -> Message | None:
    """A message about a trial whose verdict is unknown; None if nobody can receive it."""
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
        log.info("%s", one_line(line, 1000))
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


def trial_notice(
    test: TestDefinition,
    run: Run,
    state: RunState,
    *,
    warehouse: Warehouse | None,
    dashboard_url: str,
    log_lines: int = SHOWN_LINES,
) -> Notice:
    """The notice about a trial that has ended. Without the warehouse it has no regular run beside it."""
    compared, before = "The warehouse is unreachable, so the values of regular runs are unknown.", {}
    if warehouse is not None:
        compared = "The test has no regular run yet."
        if (regular := warehouse.runs.previous(run.test, exclude=run.key)) is not None:
            before = {row.metric: row for row in warehouse.metrics.of_run(regular.place)}
            result = regular.verdict if regular.job_status == JobStatus.SUCCESS else regular.job_status
            at = f"{regular.timestamp:%Y-%m-%d %H:%M}"
            compared = f"The newest regular run, of {at} UTC, has the result {result or '-'}."
    failures = list(state.gate.reasons) if state.gate is not None else list(problems_of(state).urgent.values())
    by = f" by {state.started_by}" if state.started_by else ""
    every = state.judgement.verdicts if state.judgement else ()
    judged = [one for one in every if one.outcome is not Outcome.SKIPPED]
    verdicts = sorted(judged, key=lambda verdict: (not verdict.broken, verdict.severity is Severity.WARN))
    headline = f"trial of {run.test} passed"
    if failures:
        broken = (f"{verdict.metric} {_value_and_bounds(verdict)}" for verdict in verdicts if verdict.broken)
        more = f" (+{len(failures) - 1} more)" if len(failures) > 1 else ""
        headline = f"trial of {run.test} failed: {next(broken, failures[0])}{more}"
    in_rows = tuple(f"{verdict.metric}: " for verdict in verdicts)
    others = [failure for failure in failures if not failure.startswith(in_rows)]
    shown = others[:MAX_SENTENCES]
    if len(others) > MAX_SENTENCES:
        shown.append(f"and {len(others) - MAX_SENTENCES} more")
    if state.workload.status is not JobStatus.SUCCESS and log_lines:
        lines = log_of(state.folder, state.workload.attempts, log_lines)
        shown += [f"Its log ends with {lines.error}"] if lines and lines.error else []
    began = f"Run {run.run_id} was started{by} as a trial: {', '.join(state.trial)}."
    return Notice(
        headline=headline,
        sentences=(began, *shown, compared, NO_EFFECT),
        items=(*changes_of(test, state), *_values(verdicts, state, before)),
        buttons=buttons_of(run, dashboard_url),
        test=run.test,
        run_key=run.key,
    )


def changes_of(test: TestDefinition, state: RunState) -> Iterator[Fact]:
    """Each change with both values. A value that may be secret is not shown."""
    usual: dict[str, Any] = {"image": test.image, "command": [*test.command, *test.args]}
    usual |= {name: param.default for name, param in test.params.items()}
    for name in state.trial:
        if name == TRIAL and name not in test.params:
            yield Fact(name, "nothing was changed: the run was marked as a trial")
        elif SECRET_NAME.search(name):
            yield Fact(name, "another value")
        else:
            yield Fact(name, f"{_text(state.params.get(name))} instead of {_text(usual.get(name))}")


def buttons_of(run: Run, dashboard_url: str) -> tuple[Fact, ...]:
    return (
        Fact("this run", "Open the run", page_of_run(dashboard_url, run.key)),
        Fact("every run", "Runs of the test", page_of_test(dashboard_url, run.test)),
    )


def _values(verdicts: list[Verdict], state: RunState, before: Mapping[str, StoredMetric]) -> Iterator[Fact]:
    """The judged metrics, broken ones first; all metrics if none was judged."""
    for verdict in verdicts:
        note = " (warns)" if verdict.broken and verdict.severity is Severity.WARN else ""
        stated = f"{str(verdict.outcome).replace('_', ' ')}{note}: {_value_and_bounds(verdict)}"
        yield Fact(verdict.metric, f"{stated}{_beside(verdict.value, before.get(verdict.metric), verdict.unit)}")
    for metric in () if verdicts else state.metrics:
        value = finite(metric.value)
        yield Fact(metric.name, f"{quantity(value, metric.unit)}{_beside(value, before.get(metric.name), metric.unit)}")


def _value_and_bounds(verdict: Verdict) -> str:
    value = finite(verdict.value) if verdict.value is not None else None
    if value is None:
        return "no value" if verdict.outcome is Outcome.MISSING else "no finite number"
    if verdict.bounds is None:
        return quantity(value, verdict.unit)
    shown, required = value_and_requirement(value, verdict.bounds, verdict.unit)
    return f"{shown}, must be {required}"


def _beside(value: float | None, regular: StoredMetric | None, unit: str) -> str:
    was = regular.value if regular else None
    return "" if was is None else f"; {quantity(was, unit)} in the regular run{change_in_percent(value, was)}"


def change_in_percent(value: float | None, was: float) -> str:
    """The change from another value; empty if a percentage is meaningless."""
    percent = Reference(was).percent(value)
    return f" ({change(percent)})" if percent is not None and abs(percent) >= 0.05 else ""


def _text(value: Any) -> str:
    """A value in one line: a command as in a shell, everything else as JSON."""
    if isinstance(value, list | tuple) and all(isinstance(each, str) for each in value):
        text = shlex.join(value)
    else:
        text = value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= MAX_VALUE_LENGTH else f"{text[:MAX_VALUE_LENGTH]}..."
