"""Finds messages that are written but not in the warehouse, and runs whose gate died or could not decide."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from ml_metrics.alerts.outbox.documents import MessageFolder
from ml_metrics.alerts.outbox.post import record
from ml_metrics.alerts.runs import RunNotifier
from ml_metrics.alerts.settings import MailSettings
from ml_metrics.core.errors import FailureLogged, FileMissingError, MlMetricsError, UnreadableInputError
from ml_metrics.core.model import Run
from ml_metrics.core.text import logger_of
from ml_metrics.pipeline import RunState, longest_patience
from ml_metrics.store.markers import Marker
from ml_metrics.store.run_folder import RunFolder
from ml_metrics.warehouse import StoredMessage, Warehouse

log = logger_of(__name__)

DECIDING = timedelta(minutes=4)
"""How long a gate that has decided may take to write its message."""
TRYING = timedelta(minutes=10, seconds=longest_patience())
"""How long Airflow may take to retry a gate that was killed before it decided: until it notices, and its delays."""
LOST_AFTER = timedelta(days=1)
"""The age at which a run is reported that nobody knows anything about, or whose folder is gone."""
CALLING_BACK = timedelta(minutes=1)
"""Less than this ago, the callback of a gate may still be writing its message, though the run has ended."""


def adopt(
    mail: MailSettings,
    warehouse: Warehouse,
    has_ended: Callable[[Run], bool | None] = lambda _: None,
    is_time_left: Callable[[], bool] = lambda: True,
) -> list[str]:
    """Add the rows of messages that have none, and post what dead gates did not. Returns what failed.

    `has_ended` asks Airflow whether a run has ended; None if that is unknown.
    """
    problems: list[str] = []

    def report_bug(problem: str) -> None:
        log.exception("%s", problem)  # noqa: LOG004  (called while the error is handled)
        problems.append(problem)

    for marker in mail.markers.all(problems.append):
        if not is_time_left():
            problems.append("no time was left to look at every run whose message may be missing")
            break
        with FailureLogged(report_bug, marker.name):  # one document must not keep all other messages from being sent
            try:
                if marker.document:
                    _adopt_message(marker, mail, warehouse)
                else:
                    _adopt_run(marker, mail, warehouse, has_ended)
            except MlMetricsError as error:
                problems.append(str(error))
    return problems


def _adopt_message(marker: Marker, mail: MailSettings, warehouse: Warehouse) -> None:
    folder = MessageFolder(marker.messages)
    try:
        record(folder, marker.document, mail.markers, warehouse)
    except FileMissingError:
        if _age(marker) > DECIDING:  # its process died before it wrote the message; the marker of its gate stays
            mail.markers.remove(marker.name)
    except UnreadableInputError as error:
        where = folder.document_path(marker.document)
        _tell(marker, error, mail, warehouse, marker.name, "a message about a run is damaged", document=where)


def _adopt_run(
    marker: Marker, mail: MailSettings, warehouse: Warehouse, has_ended: Callable[[Run], bool | None]
) -> None:
    state = RunState(RunFolder(marker.run_folder, mail.storage_root, strict=True))
    if not marker.undecided and not _gate_is_lost(marker, state, has_ended):
        return
    try:
        run, test = state.identity
    except UnreadableInputError as error:
        if _is_gone(state) and _age(marker) < LOST_AFTER:  # its volume may be unavailable
            raise
        name, key = state.folder.place
        what = f"{name}: a run ended, and its result is unknown"
        _tell(marker, error, mail, warehouse, f"{key}-unknown", what, run_key=key, test=name)
        return
    why = "could not read which incidents are open" if marker.undecided else "ended before it wrote its message"
    log.warning("%s: the gate of run %s %s", run.test, run.run_id, why)
    RunNotifier(run, state, warehouse, mail).post_due(test)


def _gate_is_lost(marker: Marker, state: RunState, has_ended: Callable[[Run], bool | None]) -> bool:
    """Whether no try of the gate will write the message any more, as far as can be known."""
    age = _age(marker)
    if age <= CALLING_BACK:
        return False
    try:
        has_decided = state.gate is not None
    except MlMetricsError:
        has_decided = True
    if age > DECIDING and not marker.gate_is_next and has_decided:
        return True
    try:
        ended = has_ended(state.identity[0])
    except UnreadableInputError:
        ended = None
    if ended is False and marker.gate_is_next:
        return False  # it waits for its turn
    return bool(ended) or age > (LOST_AFTER if marker.gate_is_next else TRYING)


def _is_gone(state: RunState) -> bool:
    try:
        state.folder.documents.read("run")
    except FileMissingError:
        return True
    except UnreadableInputError:
        pass
    return False


def _tell(
    marker: Marker,
    error: UnreadableInputError,
    mail: MailSettings,
    warehouse: Warehouse,
    key: str,
    what: str,
    *,
    run_key: str = "",
    test: str = "",
    document: str = "",
) -> None:
    """Tell the default recipients about a message or a run that cannot be read."""
    log.error("%s", error)
    row = StoredMessage(
        message=key,
        run_key=run_key,
        test=test,
        owner="",
        occasion="broken",
        content_hash="",
        timestamp=marker.at,
        recipients=mail.recipients,
        subject=f"[ML Metrics] {what}",
        reasons=(str(error),),
        document=document,
    )
    warehouse.messages.add(row)
    mail.markers.remove(marker.name)


def _age(marker: Marker) -> timedelta:
    """One that was written with a clock that was far ahead is old."""
    age = datetime.now(UTC) - marker.at
    return age if age > -TRYING else LOST_AFTER
