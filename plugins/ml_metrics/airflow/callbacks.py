"""What Airflow calls: the gate and its callbacks, the triggerer and the schedules."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import ExitStack, contextmanager
from datetime import UTC, date, datetime, timedelta
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ml_metrics import alerts, pipeline
from ml_metrics.airflow import versions  # which imports a name of Airflow on its first use
from ml_metrics.airflow.connections import warehouse
from ml_metrics.core.deadline import in_time
from ml_metrics.core.errors import ConfigError, FailureLogged, MlMetricsError, NothingToAskError
from ml_metrics.core.model import Run
from ml_metrics.core.settings import Settings
from ml_metrics.core.text import logger_of
from ml_metrics.core.values import end_of_day
from ml_metrics.pipeline import RunState
from ml_metrics.store.run_folder import RunFolder, listing_limits

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from ml_metrics.config.definition import TestDefinition
    from ml_metrics.warehouse import Incident, Warehouse


log = logger_of(__name__)

CALLBACK_SECONDS = 10.0
"""The time for everything in a callback: Airflow kills the process of a task 20 seconds after its end."""
LATE_DECISION_SECONDS = 4.0
"""The part of it for questions to the warehouse, if the gate could not decide."""
SPARE_SECONDS = 1.0


def post_run_message(test: TestDefinition, run: Run, state: RunState) -> alerts.Posted | None:
    """Decide which message is due about a run, and write it durably. The gate calls this before it ends."""
    with _notifier(run, state) as notifier:
        notifier.hold_silence(test)
        return notifier.post_due(test)  # last, because the time for sending its message at once is limited


def notify_run(context: Mapping[str, Any]) -> None:
    """Send the message that the gate has written, within 10 seconds. A sender sends the rest."""
    gate, ends = context["task"], time.monotonic() + CALLBACK_SECONDS
    notify = partial(_notify, gate.test, context, ends, gate.posted, decided=gate.decided)
    try:
        in_time(notify, CALLBACK_SECONDS, "the message about this run")
    except MlMetricsError as error:
        log.warning("%s: a sender will send what is left", error)


def _notify(
    test: TestDefinition, context: Mapping[str, Any], ends: float, posted: alerts.Posted | None, *, decided: bool
) -> None:
    """Send what the gate has written. A gate that was killed, or could not write, has decided nothing."""
    from ml_metrics.airflow.operators.run import run_of

    run = run_of(test.name, context)
    with _notifier(run, _state(run, partial(_has_written, context))) as notifier:
        if not decided:
            posted = notifier.post_due(test, LATE_DECISION_SECONDS)
        if posted is not None:
            notifier.hurry(posted, ends - time.monotonic())
        if notifier.warehouse is not None:
            alerts.send_if_no_sender_runs(notifier.warehouse, notifier.mail, ends - time.monotonic() - SPARE_SECONDS)


def _has_written(context: Mapping[str, Any], document: str) -> bool:
    """Return whether Airflow states that a task has written a document. A callback cannot wait for a late answer."""
    with FailureLogged(log.warning, f"whether {document}.json was written is unknown"):
        return bool(context["task"].has_written(context, document))
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
    with warehouse() as open_warehouse:
        done = alerts.send_pending(open_warehouse, _mail(), wait=time.sleep, has_ended=_has_ended)
    return f"{done.sent} sent, {done.pending} pending{f': {done.detail}' if done.detail else ''}"


def _has_ended(run: Run) -> bool | None:
    """Return whether a run has ended; None if Airflow does not say so, for instance because the run was deleted."""
    with FailureLogged(log.warning, f"the state of run {run.run_id} of {run.dag_id} is unknown"):
        ti: Any = _context()["ti"]
        return ti.get_dagrun_state(run.dag_id, run.run_id) in {"success", "failed"}
    return None


def send_digest() -> str:
    with warehouse() as open_warehouse:
        sent = alerts.send_due_digests(open_warehouse, _mail(), datetime.now(UTC))
    return f"{sent} digests"


def send_heartbeat() -> str:
    """Report the tests that did not run as scheduled, fail, or are in quarantine, and the cost of the last week."""
    from ml_metrics.config.loading import load_tests

    root, now = Path(Settings.load().config_root), datetime.now(UTC)
    library = load_tests(root)
    with warehouse() as open_warehouse:
        watched = alerts.tests_now(open_warehouse.known_tests.read(), library, root, now - alerts.WEEK)
        mail = _mail()
        sent = alerts.send_heartbeats(library.tests, open_warehouse, mail, now, watched)
        alerts.send_cost_of_week(open_warehouse, mail, now)
    return f"{sent} messages about {len(watched)} tests"


def watch_tests() -> str:
    get_dag: Any = _context()["ti"].get_dag
    return str(watch_all(get_dag, versions.conf.get("core", "dags_folder", fallback="")))


def _notify_overdue(test: str, owner: str, emails: Sequence[str], dag_run: Mapping[str, Any]) -> None:
    settings = Settings.load()
    run = Run(test, dag_run["dag_id"], dag_run["dag_run_id"], settings.deployment)  # keys of Airflow's REST API
    state = _state(run)
    since = dag_run.get("queued_at") or dag_run.get("run_after") or ""
    with _notifier(run, state) as notifier:
        start = alerts.start_in(state, test, dag_run, settings.config_root)
        posted = notifier.post_overdue(str(since), owner, tuple(emails), start)
        if posted is not None:
            notifier.hurry(posted, CALLBACK_SECONDS)


def _state(run: Run, has_written: Callable[[str], bool] = lambda _: False) -> RunState:
    """Return the documents of a run, even if its storage is not mounted: nobody else sends a message then."""
    settings = Settings.load()
    return RunState(RunFolder.of(run, settings.storage_root, listing_limits(settings)), has_written)


def _context() -> Any:
    from airflow.sdk import get_current_context

    return get_current_context()


def _mail() -> alerts.MailSettings:
    from ml_metrics.airflow.channels import load_mail_settings

    return load_mail_settings()


@contextmanager
def _notifier(run: Run, state: RunState) -> Iterator[alerts.RunNotifier]:
    with ExitStack() as stack:
        opened: Warehouse | None = None
        with FailureLogged(log.warning, "the warehouse cannot be opened"):
            opened = stack.enter_context(warehouse())
        yield alerts.RunNotifier(run, state.strict(), opened, _mail())


def post_answer(key: str, result: Mapping[str, Any], test: str, asked: tuple[str, str]) -> str:
    """Send the answer of a comparison or a search, and return a sentence about that. A failure changes no answer."""
    from ml_metrics.config.loading import load_test

    try:
        readers = load_test(Settings.load().config_root, test).emails
        with warehouse() as opened:
            mail = _mail()
            found = alerts.send_answer(key, result, test, asked=asked, readers=readers, mail=mail, warehouse=opened)
    except MlMetricsError as error:
        return f"the answer was not sent: {error}"
    return f"the answer goes to {', '.join(found)}" if found else alerts.NOBODY


DAY = timedelta(days=1)
"""A message is decided a little before its incident is opened."""
MOST_SENTENCES = 5
MAX_REASON = 1000


def incident_to_ask_about(test: str) -> str:
    """Return the open incident of a test. Raises NothingToAskError with the reason if there is nothing to ask."""
    with warehouse() as opened:
        incident = opened.incidents.find_open(test)
        if incident is None:
            raise NothingToAskError("no incident of the test is open")
        _check_unanswered(opened, incident, alerts.levels_of(opened, incident))
        return incident.opened_by


def question_about(test: str, incident: str) -> alerts.Question:
    """Return the question about an incident. Raises NothingToAskError with the reason if there is nothing to ask."""
    with warehouse() as opened:
        found = _open_incident(opened, test, incident)
        levels = alerts.levels_of(opened, found)
        _check_unanswered(opened, found, levels)
        newest = opened.runs.latest(test)
        dag_id = (newest.dag_id if newest else None) or test
        subject, body = _texts(opened, found, levels, Settings.load().dashboard_url)
    return alerts.Question(test, dag_id, incident, levels, subject, body)


def check_unanswered(document: Mapping[str, Any]) -> None:
    """Raise NothingToAskError with the reason if an incident was closed or answered elsewhere."""
    question = alerts.Question(**document)
    with warehouse() as opened:
        _check_unanswered(opened, _open_incident(opened, question.test, question.incident), question.levels)


def store_answer(document: Mapping[str, Any], answer: str, *, by: str, reason: str) -> str:
    """Raises NothingToAskError with the reason if the incident was closed meanwhile. Repeating an answer is safe."""
    question, stated = alerts.Question(**document), reason.strip()[:MAX_REASON]
    with warehouse() as opened:
        _open_incident(opened, question.test, question.incident)
        if answer == alerts.Act.REGRESSION:
            opened.incidents.assess(question.test, question.incident, is_regression=True, by=by, note=stated)
            return f"{by} says that it is a regression"
        if answer == alerts.Act.ACCEPT:
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
    opening = opened.messages.by_key([incident.opened_by], incident.opened_at - DAY).get(incident.opened_by)
    names = [alerts.short_name(one) for one in incident.reported]
    subject = opening.subject.removeprefix(alerts.SUBJECT_PREFIX) if opening else f"{incident.test}: {', '.join(names)}"
    sentences = list(opening.reasons) if opening else names
    more = len(sentences) - MOST_SENTENCES
    run = min(levels.values(), key=incident.run_keys.index)
    lines = [f"- {alerts.escaped(one)}" for one in sentences[:MOST_SENTENCES]]
    lines += [f"- and {more:,} more"] if more > 0 else []
    facts = [
        f"Since {incident.opened_at:%Y-%m-%d %H:%M} UTC.",
        f"[First bad run]({alerts.page_of_run(dashboard_url, run)})",
        f"[The incident]({alerts.page_of_incident(dashboard_url, incident.test, run)})",
    ]
    facts += [alerts.escaped(f"Cause: {incident.cause}.")] if incident.cause else []
    act, metrics = alerts.Act, alerts.escaped(", ".join(levels))
    answers = (
        f"- **{act.ACCEPT.label}**: later runs are compared with {metrics} as of the first bad run.",
        f"- **{act.REGRESSION.label}**: that is stored, and the incident stays open until the test recovers.",
        f"- **{act.RERUN.label}**: a run is started. If its value is as bad, you are asked again.",
    )
    return alerts.one_line(subject), "\n".join((*lines, "", " · ".join(facts), "", *answers))


HURRY_SECONDS = 60.0
"""The time for sending what a pass wrote. Senders send the rest."""


def watch_all(get_dag: Callable[[str], Any] | None, dags_folder: str) -> alerts.Outcome:
    """Report files, DAGs and schedules that broke since the last pass. `get_dag` is that of a task instance."""
    settings, mail, now = Settings.load(), _mail(), datetime.now(UTC)
    errors, mended = alerts.read_import_errors(settings, now)
    around = alerts.Surroundings(
        Path(settings.config_root),
        dags_folder=Path(dags_folder) if dags_folder else None,
        get_dag=get_dag,
        import_errors=errors,
    )
    posted: list[alerts.Posted] = []
    with warehouse() as opened:
        outcome = alerts.watch(
            opened, mail, around, now, lambda message: posted.append(alerts.post(message, mail=mail, warehouse=opened))
        )
        alerts.forget_import_errors(settings, mended)
        deadline = time.monotonic() + HURRY_SECONDS
        for one in posted:
            if time.monotonic() < deadline:
                alerts.hurry(one, mail, opened)
    return outcome


def diagnose_here() -> str:
    from ml_metrics.airflow.doctor import diagnose

    found = []
    for check in diagnose():
        (log.info if check.ok else log.error)("%s: %s", check.name, check.message)
        found.append(check)
    if wrong := [check.name for check in found if not check.ok]:
        raise versions.AirflowFailException(f"{len(wrong)} of {len(found)} checks are wrong: {', '.join(wrong)}")
    return f"{len(found)} checks, none wrong"


PASS_SECONDS = 50 * 60.0
"""The time of a pass. The next one removes the rest."""


def prune_rows() -> str:
    """Remove the rows that the setting no longer keeps. Skipped while it keeps everything."""
    setting, until = Settings.load().keep_rows_days, time.monotonic() + PASS_SECONDS
    if not setting.strip():
        raise versions.AirflowSkipException("the setting keep_rows_days keeps every row")

    with warehouse() as opened:
        rows = pipeline.old_rows(setting, opened)
        removed = sum(rows.remove(lambda: time.monotonic() > until)) if rows else 0
    late = "; the next pass continues" if time.monotonic() > until else ""
    return f"the rows of {removed} runs removed{late}"


def prune_storage() -> str:
    """Remove what the settings no longer keep; skipped while they keep everything. Bring back what faults took away."""
    from ml_metrics.store.confined import Usage

    settings = Settings.load()
    ages, until = pipeline.Ages.of(settings), time.monotonic() + PASS_SECONDS
    stored = pipeline.StoredRuns(settings.storage_root, settings.deployment)
    pipeline.bring_back_all(stored)
    if not ages.are_set:
        raise versions.AirflowSkipException(
            "the settings keep_runs_days and keep_failed_runs_days keep every run folder"
        )
    with warehouse() as opened:
        needed = pipeline.Needed.of(stored.root, stored.deployment, opened, datetime.now(UTC))
    remover = pipeline.Remover(stored.root, lambda: time.monotonic() > until)
    total, counts = Usage(), Counter[str]()
    total.add(remover.resume())
    ti: Any = _context()["ti"]

    def in_progress(runs: Collection[Run]) -> Collection[str]:
        """Return the runs which Airflow is running. A run that it no longer knows is not."""
        states = ["queued", "running"]
        return {run.key for run in runs if ti.get_dr_count(dag_id=run.dag_id, run_ids=[run.run_id], states=states) > 0}

    journals = pipeline.StoredExperiments(stored.root, stored.deployment).prune(ages, needed, is_late=remover.is_late)
    for run, removed in chain(pipeline.prune(stored.tests(), stored, ages, needed, remover, in_progress), journals):
        log.info("removed %s %s of %s: %d files, %d bytes", run.kind, run.key, run.test, removed.files, removed.bytes)
        total.add(removed)
        counts["runs" if run.kind == pipeline.RUN else "journals"] += 1
    late = "; the next pass continues" if remover.is_late() else ""
    found = f"{counts['runs']} runs" + (f" and {counts['journals']} journals" if counts["journals"] else "")
    return f"{found} removed, {total.files} files, {total.bytes} bytes{late}"
