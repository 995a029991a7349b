"""What Airflow calls: the gate and its callbacks, the triggerer and the schedules."""

from __future__ import annotations

import time
from contextlib import ExitStack, contextmanager
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ml_metrics.alerts import Act, Question
from ml_metrics.core.errors import ConfigError, MlMetricsError, NothingToAskError
from ml_metrics.core.settings import Settings
from ml_metrics.core.text import logger_of
from ml_metrics.core.values import end_of_day

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from ml_metrics.alerts import Outcome, Posted, RunNotifier
    from ml_metrics.config.definition import TestDefinition
    from ml_metrics.core.model import Run
    from ml_metrics.pipeline import RunState
    from ml_metrics.warehouse import Incident, Warehouse


log = logger_of(__name__)

CALLBACK_SECONDS = 10.0
"""The time for everything in a callback: Airflow kills the process of a task 20 seconds after its end."""
LATE_DECISION_SECONDS = 4.0
"""The part of it for questions to the warehouse, if the gate could not decide."""
SPARE_SECONDS = 1.0


def post_run_message(test: TestDefinition, run: Run, state: RunState) -> Posted | None:
    """Decide which message is due about a run, and write it durably. The gate calls this before it ends."""
    with _notifier(run, state) as notifier:
        notifier.hold_silence(test)
        return notifier.post_due(test)  # last, because the time for sending its message at once is limited


def notify_run(context: Mapping[str, Any]) -> None:
    """Send the message that the gate has written, within 10 seconds. A sender sends the rest."""
    from ml_metrics.core.deadline import in_time

    gate, ends = context["task"], time.monotonic() + CALLBACK_SECONDS
    notify = partial(_notify, gate.test, context, ends, gate.posted, decided=gate.decided)
    try:
        in_time(notify, CALLBACK_SECONDS, "the message about this run")
    except MlMetricsError as error:
        log.warning("%s: a sender will send what is left", error)


def _notify(
    test: TestDefinition, context: Mapping[str, Any], ends: float, posted: Posted | None, *, decided: bool
) -> None:
    """Send what the gate has written. A gate that was killed, or could not write, has decided nothing."""
    from ml_metrics.airflow.operators.run import run_of
    from ml_metrics.alerts import send_if_no_sender_runs

    run = run_of(test.name, context)
    with _notifier(run, _state(run, partial(_has_written, context))) as notifier:
        if not decided:
            posted = notifier.post_due(test, LATE_DECISION_SECONDS)
        if posted is not None:
            notifier.hurry(posted, ends - time.monotonic())
        if notifier.warehouse is not None:
            send_if_no_sender_runs(notifier.warehouse, notifier.mail, ends - time.monotonic() - SPARE_SECONDS)


def _has_written(context: Mapping[str, Any], document: str) -> bool:
    """Return whether Airflow states that a task has written a document. A callback cannot wait for a late answer."""
    try:
        return bool(context["task"].has_written(context, document))
    except Exception as error:  # noqa: BLE001  (the DAG processor may answer with any error of Airflow)
        log.warning("whether %s.json was written is unknown: %s: %s", document, type(error).__name__, error)
        return False


async def notify_overdue(
    test: str, owner: str, emails: Sequence[str], quiet_until: str, context: Mapping[str, Any]
) -> None:
    """Notify about a run that has not finished in time. Airflow's triggerer calls this after the DAG's deadline.

    The executor could call it too, but provides no connections there. `quiet_until` is the last day of the test's
    quarantine, or empty.
    """
    from asgiref.sync import sync_to_async

    if quiet_until and datetime.now(UTC) < end_of_day(date.fromisoformat(quiet_until)):
        log.info("%s is in quarantine until %s", test, quiet_until)
        return
    # a thread of its own, since Airflow's connections are requested through the triggerer's event loop
    await sync_to_async(_notify_overdue, thread_sensitive=False)(test, owner, emails, context["dag_run"])


def send_messages() -> str:
    """Send every message that is due. A task calls this."""
    from ml_metrics.airflow.channels import load_mail_settings
    from ml_metrics.airflow.connections import warehouse
    from ml_metrics.alerts import send_pending

    with warehouse() as open_warehouse:
        done = send_pending(open_warehouse, load_mail_settings(), wait=time.sleep, has_ended=_has_ended)
    return f"{done.sent} sent, {done.pending} pending{f': {done.detail}' if done.detail else ''}"


def _has_ended(run: Run) -> bool | None:
    """Return whether a run has ended; None if Airflow does not say so, for instance because the run was deleted."""
    from airflow.sdk import get_current_context

    try:
        ti: Any = get_current_context()["ti"]
        return ti.get_dagrun_state(run.dag_id, run.run_id) in {"success", "failed"}
    except Exception as error:  # noqa: BLE001  (the server may answer with any error of Airflow)
        log.warning("the state of run %s of %s is unknown: %s", run.run_id, run.dag_id, error)
        return None


def send_digest() -> str:
    """Send the messages that were held for the digest."""
    from ml_metrics.airflow.channels import load_mail_settings
    from ml_metrics.airflow.connections import warehouse
    from ml_metrics.alerts import send_due_digests

    with warehouse() as open_warehouse:
        sent = send_due_digests(open_warehouse, load_mail_settings(), datetime.now(UTC))
    return f"{sent} digests"


def send_heartbeat() -> str:
    """Report the tests that did not run as scheduled, fail, or are in quarantine, and the cost of the last week."""
    from ml_metrics.airflow.channels import load_mail_settings
    from ml_metrics.airflow.connections import warehouse
    from ml_metrics.alerts import WEEK, send_cost_of_week, send_heartbeats, tests_now
    from ml_metrics.config.loading import load_tests

    root, now = Path(Settings.load().config_root), datetime.now(UTC)
    library = load_tests(root)
    with warehouse() as open_warehouse:
        watched = tests_now(open_warehouse.known_tests.read(), library, root, now - WEEK)
        mail = load_mail_settings()
        sent = send_heartbeats(library.tests, open_warehouse, mail, now, watched)
        send_cost_of_week(open_warehouse, mail, now)
    return f"{sent} messages about {len(watched)} tests"


def watch_tests() -> str:
    """Report test files, DAGs and schedules that broke or work again. A task calls this."""
    from airflow.sdk import get_current_context

    from ml_metrics.airflow.versions import conf

    get_dag: Any = get_current_context()["ti"].get_dag
    return str(watch_all(get_dag, conf.get("core", "dags_folder", fallback="")))


def _notify_overdue(test: str, owner: str, emails: Sequence[str], dag_run: Mapping[str, Any]) -> None:
    from ml_metrics.alerts import start_in
    from ml_metrics.core.model import Run

    settings = Settings.load()
    run = Run(test, dag_run["dag_id"], dag_run["dag_run_id"], settings.deployment)  # keys of Airflow's REST API
    state = _state(run)
    since = dag_run.get("queued_at") or dag_run.get("run_after") or ""
    with _notifier(run, state) as notifier:
        start = start_in(state, test, dag_run, settings.config_root)
        posted = notifier.post_overdue(str(since), owner, tuple(emails), start)
        if posted is not None:
            notifier.hurry(posted, CALLBACK_SECONDS)


def _state(run: Run, has_written: Callable[[str], bool] = lambda _: False) -> RunState:
    """Return the documents of a run, even if its storage is not mounted: nobody else sends a message then."""
    from ml_metrics.pipeline import RunState
    from ml_metrics.store.run_folder import RunFolder, listing_limits

    settings = Settings.load()
    return RunState(RunFolder.of(run, settings.storage_root, listing_limits(settings)), has_written)


@contextmanager
def _notifier(run: Run, state: RunState) -> Iterator[RunNotifier]:
    from ml_metrics.airflow.channels import load_mail_settings
    from ml_metrics.airflow.connections import warehouse
    from ml_metrics.alerts import RunNotifier

    with ExitStack() as stack:
        opened: Warehouse | None = None
        try:
            opened = stack.enter_context(warehouse())
        except Exception as error:  # noqa: BLE001  (Airflow may reject the connection with errors of its own)
            log.warning("the warehouse cannot be opened: %s: %s", type(error).__name__, error)
        yield RunNotifier(run, state.strict(), opened, load_mail_settings())


def post_answer(key: str, result: Mapping[str, Any], test: str, asked: tuple[str, str]) -> str:
    """Send the answer of a comparison or a search, and return a sentence about that. A failure changes no answer."""
    from ml_metrics.airflow.channels import load_mail_settings
    from ml_metrics.airflow.connections import warehouse
    from ml_metrics.alerts import NOBODY, send_answer
    from ml_metrics.config.loading import load_test

    try:
        readers = load_test(Settings.load().config_root, test).emails
        with warehouse() as opened:
            mail = load_mail_settings()
            found = send_answer(key, result, test, asked=asked, readers=readers, mail=mail, warehouse=opened)
    except MlMetricsError as error:
        return f"the answer was not sent: {error}"
    return f"the answer goes to {', '.join(found)}" if found else NOBODY


DAY = timedelta(days=1)
"""A message is decided a little before its incident is opened."""
MOST_SENTENCES = 5
MOST_METRICS = 50
"""The levels that one answer accepts: the others are accepted on the page of the test."""
MAX_REASON = 1000


def levels_of(opened: Warehouse, incident: Incident) -> dict[str, str]:
    """Return the metrics whose new level can be accepted, each with the first run of the incident that has a value."""
    from ml_metrics.alerts import changed_metric_of

    left = list(dict.fromkeys(filter(None, map(changed_metric_of, incident.reported))))[:MOST_METRICS]
    levels: dict[str, str] = {}
    for run in incident.run_keys:
        place = opened.runs.place(run) if left else None
        found = opened.metrics.named_of_run(place, left) if place else {}
        levels |= {metric: run for metric in left if metric in found and found[metric].value is not None}
        left = [metric for metric in left if metric not in levels]
    return levels


def incident_to_ask_about(test: str) -> str:
    """Return the open incident of a test. Raises NothingToAskError with the reason if there is nothing to ask."""
    from ml_metrics.airflow.connections import warehouse

    with warehouse() as opened:
        incident = opened.incidents.find_open(test)
        if incident is None:
            raise NothingToAskError("no incident of the test is open")
        _check_unanswered(opened, incident, levels_of(opened, incident))
        return incident.opened_by


def question_about(test: str, incident: str) -> Question:
    """Return the question about an incident. Raises NothingToAskError with the reason if there is nothing to ask."""
    from ml_metrics.airflow.connections import warehouse
    from ml_metrics.core.settings import Settings

    with warehouse() as opened:
        found = _open_incident(opened, test, incident)
        levels = levels_of(opened, found)
        _check_unanswered(opened, found, levels)
        newest = opened.runs.latest(test)
        dag_id = (newest.dag_id if newest else None) or test
        subject, body = _texts(opened, found, levels, Settings.load().dashboard_url)
    return Question(test, dag_id, incident, levels, subject, body)


def check_unanswered(document: Mapping[str, Any]) -> None:
    """Raise NothingToAskError with the reason if an incident was closed or answered elsewhere."""
    from ml_metrics.airflow.connections import warehouse

    question = Question(**document)
    with warehouse() as opened:
        _check_unanswered(opened, _open_incident(opened, question.test, question.incident), question.levels)


def store_answer(document: Mapping[str, Any], answer: str, *, by: str, reason: str) -> str:
    """Store an answer by the name of the person who gave it, and return a sentence about that. Repeating it is safe.

    Raises NothingToAskError with the reason if the incident was closed meanwhile.
    """
    from ml_metrics.airflow.connections import warehouse

    question, stated = Question(**document), reason.strip()[:MAX_REASON]
    with warehouse() as opened:
        _open_incident(opened, question.test, question.incident)
        if answer == Act.REGRESSION:
            opened.incidents.assess(question.test, question.incident, is_regression=True, by=by, note=stated)
            return f"{by} says that it is a regression"
        if answer == Act.ACCEPT:
            for metric, run in question.levels.items():
                opened.acceptances.add(run, metric, reason=stated or "answered in Airflow", by=by)
            return f"{by} accepted the level of {', '.join(question.levels)}"
    raise ConfigError(f"{answer!r} is not an answer that is stored")


def _open_incident(opened: Warehouse, test: str, incident: str) -> Incident:
    found = opened.incidents.find_open(test)
    if found is None or found.opened_by != incident:
        raise NothingToAskError("the incident is closed")
    return found


def _check_unanswered(opened: Warehouse, incident: Incident, levels: Mapping[str, str]) -> None:
    if not levels:
        raise NothingToAskError("the incident is about no value that could be accepted")
    if incident.is_regression is not None:
        raise NothingToAskError(f"{incident.assessed_by} has said what the incident is")
    accepted = {(one.metric, one.run_key) for one in opened.acceptances.of_test(incident.test)}
    if set(levels.items()) <= accepted:
        raise NothingToAskError("the new level is accepted")


def _texts(opened: Warehouse, incident: Incident, levels: Mapping[str, str], dashboard_url: str) -> tuple[str, str]:
    """Return the subject, and the body as Markdown: what broke, by how much, since when, and what each answer does."""
    from ml_metrics.alerts import SUBJECT_PREFIX, escaped, one_line, page_of_incident, page_of_run, short_name

    opening = opened.messages.by_key([incident.opened_by], incident.opened_at - DAY).get(incident.opened_by)
    names = [short_name(one) for one in incident.reported]
    subject = opening.subject.removeprefix(SUBJECT_PREFIX) if opening else f"{incident.test}: {', '.join(names)}"
    sentences = list(opening.reasons) if opening else names
    more = len(sentences) - MOST_SENTENCES
    run = min(levels.values(), key=incident.run_keys.index)
    lines = [f"- {escaped(one)}" for one in sentences[:MOST_SENTENCES]]
    lines += [f"- and {more:,} more"] if more > 0 else []
    facts = [
        f"Since {incident.opened_at:%Y-%m-%d %H:%M} UTC.",
        f"[First bad run]({page_of_run(dashboard_url, run)})",
        f"[The incident]({page_of_incident(dashboard_url, incident.test, run)})",
    ]
    facts += [escaped(f"Cause: {incident.cause}.")] if incident.cause else []
    answers = (
        f"- **{Act.ACCEPT.label}**: later runs are compared with {escaped(', '.join(levels))} as of the first bad run.",
        f"- **{Act.REGRESSION.label}**: that is stored, and the incident stays open until the test recovers.",
        f"- **{Act.RERUN.label}**: a run is started. If its value is as bad, you are asked again.",
    )
    return one_line(subject), "\n".join((*lines, "", " · ".join(facts), "", *answers))


HURRY_SECONDS = 60.0
"""The time for sending what a pass wrote. Senders send the rest."""


def watch_all(get_dag: Callable[[str], Any] | None, dags_folder: str) -> Outcome:
    """Report files, DAGs and schedules that broke since the last pass. `get_dag` is that of a task instance."""
    from ml_metrics.airflow.channels import load_mail_settings
    from ml_metrics.airflow.connections import warehouse
    from ml_metrics.alerts import Surroundings, forget_import_errors, hurry, post, read_import_errors, watch
    from ml_metrics.core.settings import Settings

    settings, mail, now = Settings.load(), load_mail_settings(), datetime.now(UTC)
    errors, mended = read_import_errors(settings, now)
    around = Surroundings(
        Path(settings.config_root),
        dags_folder=Path(dags_folder) if dags_folder else None,
        get_dag=get_dag,
        import_errors=errors,
    )
    posted: list[Posted] = []
    with warehouse() as opened:
        outcome = watch(
            opened, mail, around, now, lambda message: posted.append(post(message, mail=mail, warehouse=opened))
        )
        forget_import_errors(settings, mended)
        deadline = time.monotonic() + HURRY_SECONDS
        for one in posted:
            if time.monotonic() < deadline:
                hurry(one, mail, opened)
    return outcome
