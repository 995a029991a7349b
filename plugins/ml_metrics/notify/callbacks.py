"""The callbacks that Airflow calls."""

from __future__ import annotations

import logging
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, date, datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from ml_metrics import storage
from ml_metrics.errors import StorageError, WarehouseError
from ml_metrics.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ml_metrics.config.definition import TestDefinition
    from ml_metrics.model import Run
    from ml_metrics.notify.mail_settings import MailSettings
    from ml_metrics.notify.notifier import Notifier
    from ml_metrics.warehouse import Warehouse

log = logging.getLogger(__name__)


def notify_run(context: Mapping[str, Any]) -> None:
    """Send the message that is due after a run, if one is."""
    from ml_metrics.notify.digest import send_late_digest
    from ml_metrics.notify.mail_settings import load_mail_settings
    from ml_metrics.notify.notifier import Notifier
    from ml_metrics.operators.tasks import folder_of, run_of
    from ml_metrics.run_state import RunState

    test: TestDefinition = context["task"].test
    mail = load_mail_settings()
    with _reachable_warehouse() as warehouse:
        state = RunState(folder_of(test.name, context))
        _notify(Notifier(run_of(test.name, context), state, warehouse, mail), test)
        if warehouse is not None:
            _hold_silence(test, run_of(test.name, context), warehouse, mail)
            send_late_digest(warehouse, mail, datetime.now(UTC))


def notify_lost_gate(context: Mapping[str, Any]) -> None:
    """Notify about a failed run whose gate task made no decision. Airflow's DAG processor calls this.

    A task that is killed in its last try has no callback of its own. A gate that made a decision notifies by itself,
    possibly at this moment.
    """
    from ml_metrics.operators.tasks import folder_of
    from ml_metrics.steps import TASKS

    dag = context["dag"]
    gate = dag.get_task(TASKS[-1])
    if not hasattr(gate, "test"):
        return  # a deserialized DAG, under `airflow dags test`: the gate's own callback has run
    # Airflow passes only the id of a run that has no tasks left
    dag_run = context.get("dag_run") or SimpleNamespace(dag_id=dag.dag_id, run_id=context["run_id"])
    gate_context = {**context, "dag_run": dag_run, "task": gate}
    try:
        decided = storage.exists(folder_of(gate.test.name, gate_context).document_path("gate"))
    except StorageError as error:
        log.warning("cannot check whether the gate made a decision, notifying anyway: %s", error)
        decided = False
    if not decided:
        notify_run(gate_context)


async def notify_overdue(
    test: str, owner: str, emails: Sequence[str], quiet_until: str, context: Mapping[str, Any]
) -> None:
    """Notify about a run that has not finished in time. Airflow's triggerer calls this after the DAG's deadline.

    The executor could call it too, but provides no connections there. `quiet_until` is the last day of the test's
    quarantine, or empty.
    """
    from asgiref.sync import sync_to_async

    if quiet_until and datetime.now(UTC).date() <= date.fromisoformat(quiet_until):
        log.info("%s is in quarantine until %s", test, quiet_until)
        return
    # a thread of its own, since Airflow's connections are requested through the triggerer's event loop
    await sync_to_async(_notify_overdue, thread_sensitive=False)(test, owner, emails, context["dag_run"])


def send_digest() -> str:
    """Send the messages that were held or that no channel accepted."""
    from ml_metrics.connections import warehouse
    from ml_metrics.notify.digest import send_due_digests
    from ml_metrics.notify.mail_settings import load_mail_settings

    with warehouse() as open_warehouse:
        sent = send_due_digests(open_warehouse, load_mail_settings(), datetime.now(UTC))
    return f"{sent} digests"


def send_heartbeat() -> str:
    """Send which tests did not run as scheduled, are failing, or are in quarantine."""
    from ml_metrics.config.load import load_tests
    from ml_metrics.connections import warehouse
    from ml_metrics.notify.heartbeat import send_heartbeats
    from ml_metrics.notify.mail_settings import load_mail_settings

    tests = load_tests(Settings.load().config_root).tests
    with warehouse() as open_warehouse:
        sent = send_heartbeats(tests, open_warehouse, load_mail_settings(), datetime.now(UTC))
    return f"{sent} messages about {len(tests)} tests"


def _notify_overdue(test: str, owner: str, emails: Sequence[str], dag_run: Mapping[str, Any]) -> None:
    from ml_metrics.model import Run
    from ml_metrics.notify.mail_settings import load_mail_settings
    from ml_metrics.notify.notifier import Notifier
    from ml_metrics.run_folder import RunFolder
    from ml_metrics.run_state import RunState

    settings = Settings.load()
    run = Run(test, dag_run["dag_id"], dag_run["dag_run_id"], settings.deployment)  # keys of Airflow's REST API
    state = RunState(RunFolder.of(run, settings.storage_root))
    since = dag_run.get("queued_at") or dag_run.get("run_after") or ""
    with _reachable_warehouse() as warehouse:
        Notifier(run, state, warehouse, load_mail_settings()).notify_overdue(str(since), owner, emails)


def _notify(notifier: Notifier, test: TestDefinition) -> None:
    """Notify with whatever works: without the warehouse if it fails, with a minimal message if anything else fails."""
    try:
        try:
            notifier.notify(test)
        except WarehouseError as error:
            log.warning("notifying without the state of alerts: %s", error)
            replace(notifier, warehouse=None).notify(test)
    except Exception as error:  # any failure must still lead to a message
        log.exception("the message about this run could not be composed")
        replace(notifier, warehouse=None).notify_unreadable(test, error)


def _hold_silence(test: TestDefinition, run: Run, warehouse: Warehouse, mail: MailSettings) -> None:
    """Add conditions that no longer decide to the next digest. A failure to do so is logged."""
    from ml_metrics.notify.silence import hold_silence

    try:
        hold_silence(test, run, warehouse, mail, datetime.now(UTC))
    except Exception as error:  # noqa: BLE001  (the message about the run has been sent)
        log.warning("the conditions that do not decide are unknown: %s: %s", type(error).__name__, error)


@contextmanager
def _reachable_warehouse() -> Iterator[Warehouse | None]:
    """Yield the warehouse, or None if it is unreachable. Repeating a message is better than sending none."""
    from ml_metrics.connections import warehouse

    with ExitStack() as stack:
        opened: Warehouse | None = None
        try:
            opened = stack.enter_context(warehouse())
            opened.ensure_schema()
        except Exception as error:  # noqa: BLE001  (Airflow may reject the connection with errors of its own)
            log.warning("notifying without the state of alerts: %s: %s", type(error).__name__, error)
            opened = None
        yield opened
