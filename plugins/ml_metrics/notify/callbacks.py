"""The functions that Airflow is given."""

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
    from ml_metrics.notify.notifier import Telling
    from ml_metrics.warehouse import Warehouse

log = logging.getLogger(__name__)


def tell_people(context: Mapping[str, Any]) -> None:
    """Send the message that is due about this run, if one is."""
    from ml_metrics.notify.digest import send_late_digest
    from ml_metrics.notify.mail_settings import post_office
    from ml_metrics.notify.notifier import Telling
    from ml_metrics.operators.tasks import folder_of, run_of

    test: TestDefinition = context["task"].test
    post = post_office()
    with _warehouse_if_it_answers() as warehouse:
        _tell(Telling(run_of(test.name, context), folder_of(test.name, context), warehouse, post), test)
        if warehouse is not None:
            send_late_digest(warehouse, post, datetime.now(UTC))


def tell_of_lost_gate(context: Mapping[str, Any]) -> None:
    """Tell of a run whose gate never came to a decision. Airflow's DAG processor calls this when a run has failed.

    A task whose process is killed in its last try has no callback of its own: its supervisor calls it failed, and that
    is that. A gate that did decide tells by itself, at this very moment.
    """
    from ml_metrics.operators.tasks import folder_of
    from ml_metrics.steps import TASKS

    dag = context["dag"]
    gate = dag.get_task(TASKS[-1])
    if not hasattr(gate, "test"):
        return  # `airflow dags test` shows the DAG as its database knows it; there the gate's own callback has told
    # of a run whose tasks are all gone, Airflow knows only the id
    dag_run = context.get("dag_run") or SimpleNamespace(dag_id=dag.dag_id, run_id=context["run_id"])
    known = {**context, "dag_run": dag_run, "task": gate}
    try:
        decided = storage.exists(folder_of(gate.test.name, known).document_path("gate"))
    except StorageError as error:
        log.warning("whether the gate decided is not known, and a message too many is better than silence: %s", error)
        decided = False
    if not decided:
        tell_people(known)


async def tell_overdue(
    test: str, owner: str, emails: Sequence[str], quiet_until: str, context: Mapping[str, Any]
) -> None:
    """Say that a run has not ended in its time. Airflow's triggerer calls this when the DAG's deadline has passed.

    Not the executor, which could call it as well: there Airflow gives callbacks no connections. `quiet_until` is the
    last day of the test's quarantine, or empty.
    """
    from asgiref.sync import sync_to_async

    if quiet_until and datetime.now(UTC).date() <= date.fromisoformat(quiet_until):
        log.info("%s is kept quiet until %s", test, quiet_until)
        return
    # in a thread of its own, from which Airflow's connections are asked for in the triggerer's loop
    await sync_to_async(_tell_overdue, thread_sensitive=False)(test, owner, emails, context["dag_run"])


def send_digest() -> str:
    """Tell what has been held back, and what no channel took when it was news."""
    from ml_metrics.connections import warehouse
    from ml_metrics.notify.digest import send_due_digests
    from ml_metrics.notify.mail_settings import post_office

    with warehouse() as open_warehouse:
        sent = send_due_digests(open_warehouse, post_office(), datetime.now(UTC))
    return f"{sent} digests"


def send_heartbeat() -> str:
    """Tell which tests did not run when they should have, and what else is open."""
    from ml_metrics.config.load import load_tests
    from ml_metrics.connections import warehouse
    from ml_metrics.notify.heartbeat import send_heartbeats
    from ml_metrics.notify.mail_settings import post_office

    tests = load_tests(Settings.load().config_root).tests
    with warehouse() as open_warehouse:
        sent = send_heartbeats(tests, open_warehouse, post_office(), datetime.now(UTC))
    return f"{sent} messages about {len(tests)} tests"


def _tell_overdue(test: str, owner: str, emails: Sequence[str], dag_run: Mapping[str, Any]) -> None:
    from ml_metrics.model import Run
    from ml_metrics.notify.mail_settings import post_office
    from ml_metrics.notify.notifier import Telling
    from ml_metrics.run_folder import RunFolder

    settings = Settings.load()
    run = Run(test, dag_run["dag_id"], dag_run["dag_run_id"], settings.deployment)  # as the REST API shows a run
    folder = RunFolder.of(run, settings.storage_root)
    since = dag_run.get("queued_at") or dag_run.get("run_after") or ""
    with _warehouse_if_it_answers() as warehouse:
        Telling(run, folder, warehouse, post_office()).tell_overdue(str(since), owner, emails)


def _tell(telling: Telling, test: TestDefinition) -> None:
    """Tell, as far as is known: without a warehouse that answers no more, in plain words if all else fails."""
    try:
        try:
            telling.tell(test)
        except WarehouseError as error:
            log.warning("the state of alerts is not known: %s", error)
            replace(telling, warehouse=None).tell(test)
    except Exception as error:  # whatever it is, people shall hear that there is something to look at
        log.exception("the message about this run could not be made")
        replace(telling, warehouse=None).tell_plainly(test, error)


@contextmanager
def _warehouse_if_it_answers() -> Iterator[Warehouse | None]:
    """Without the warehouse we do not know what was told before. A message too many is better than silence."""
    from ml_metrics.connections import warehouse

    with ExitStack() as stack:
        opened: Warehouse | None = None
        try:
            opened = stack.enter_context(warehouse())
            opened.ensure_schema()
        except Exception as error:  # noqa: BLE001  (Airflow may refuse the connection, in errors of its own)
            log.warning("the state of alerts is not known: %s: %s", type(error).__name__, error)
            opened = None
        yield opened
