"""What Airflow calls: the gate and its callbacks, the triggerer and the schedules."""

from __future__ import annotations

import time
from contextlib import ExitStack, contextmanager
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ml_metrics.errors import MlMetricsError
from ml_metrics.log_lines import logger_of
from ml_metrics.settings import Settings
from ml_metrics.values import end_of_day

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from ml_metrics.config.definition import TestDefinition
    from ml_metrics.model import Run
    from ml_metrics.notify.outgoing import Posted
    from ml_metrics.notify.runs import RunNotifier
    from ml_metrics.run_state import RunState
    from ml_metrics.warehouse import Warehouse

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
    from ml_metrics.notify.in_time import in_time

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
    from ml_metrics.notify.sender import send_if_no_sender_runs
    from ml_metrics.operators.tasks import run_of

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
    from ml_metrics.connections import warehouse
    from ml_metrics.notify.mail_settings import load_mail_settings
    from ml_metrics.notify.sender import send_pending

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
    from ml_metrics.connections import warehouse
    from ml_metrics.notify.digest import send_due_digests
    from ml_metrics.notify.mail_settings import load_mail_settings

    with warehouse() as open_warehouse:
        sent = send_due_digests(open_warehouse, load_mail_settings(), datetime.now(UTC))
    return f"{sent} digests"


def send_heartbeat() -> str:
    """Report the tests that did not run as scheduled, fail, or are in quarantine, and the cost of the last week."""
    from ml_metrics.config.load import load_tests
    from ml_metrics.connections import warehouse
    from ml_metrics.notify.cost_week import send_cost_of_week
    from ml_metrics.notify.heartbeat import WEEK, send_heartbeats
    from ml_metrics.notify.mail_settings import load_mail_settings
    from ml_metrics.notify.watch.files import tests_now

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

    from ml_metrics.airflow_versions import conf
    from ml_metrics.notify.watch.task import watch_all

    get_dag: Any = get_current_context()["ti"].get_dag
    return str(watch_all(get_dag, conf.get("core", "dags_folder", fallback="")))


def _notify_overdue(test: str, owner: str, emails: Sequence[str], dag_run: Mapping[str, Any]) -> None:
    from ml_metrics.model import Run
    from ml_metrics.notify.trials import start_in

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
    from ml_metrics.run_folder import RunFolder, listing_limits
    from ml_metrics.run_state import RunState

    settings = Settings.load()
    return RunState(RunFolder.of(run, settings.storage_root, listing_limits(settings)), has_written)


@contextmanager
def _notifier(run: Run, state: RunState) -> Iterator[RunNotifier]:
    from ml_metrics.connections import warehouse
    from ml_metrics.notify.mail_settings import load_mail_settings
    from ml_metrics.notify.runs import RunNotifier

    with ExitStack() as stack:
        opened: Warehouse | None = None
        try:
            opened = stack.enter_context(warehouse())
        except Exception as error:  # noqa: BLE001  (Airflow may reject the connection with errors of its own)
            log.warning("the warehouse cannot be opened: %s: %s", type(error).__name__, error)
        yield RunNotifier(run, state.strict(), opened, load_mail_settings())


def post_answer(key: str, result: Mapping[str, Any], test: str, asked: tuple[str, str]) -> str:
    """Send the answer of a comparison or a search, and return a sentence about that. A failure changes no answer."""
    from ml_metrics.config.load import load_test
    from ml_metrics.connections import warehouse
    from ml_metrics.notify.answer import NOBODY, send_answer
    from ml_metrics.notify.mail_settings import load_mail_settings

    try:
        readers = load_test(Settings.load().config_root, test).emails
        with warehouse() as opened:
            mail = load_mail_settings()
            found = send_answer(key, result, test, asked=asked, readers=readers, mail=mail, warehouse=opened)
    except MlMetricsError as error:
        return f"the answer was not sent: {error}"
    return f"the answer goes to {', '.join(found)}" if found else NOBODY
