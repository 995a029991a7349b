"""The attempts of a workload, which are counted apart from the tries of the Airflow task, and their outcomes."""

from __future__ import annotations

import json
import shlex
import signal
import threading
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from airflow.sdk.exceptions import AirflowException
from kubernetes.client.exceptions import ApiException
from kubernetes.config import ConfigException

from ml_metrics.airflow.clusters.outcome import rejection_reason
from ml_metrics.airflow.operators.cluster import is_outage, is_passing
from ml_metrics.airflow.storage_mark import check_storage
from ml_metrics.airflow.versions import AirflowTaskTimeout
from ml_metrics.core.errors import ClusterError, ConfigError, FailureLogged, MlMetricsError
from ml_metrics.core.faults import DOCUMENT as FAULTS
from ml_metrics.core.faults import FaultJournal
from ml_metrics.core.model import UNKNOWN_ENDS, JobStatus, Workload
from ml_metrics.core.settings import Settings
from ml_metrics.core.text import logger_of
from ml_metrics.store.run_folder import Start

if TYPE_CHECKING:
    from airflow.sdk.types import RuntimeTaskInstanceProtocol

    from ml_metrics.config.clusters import ClusterAccess
    from ml_metrics.store.run_folder import RunFolder

log = logger_of(__name__)


DOCUMENT = "attempts"
REJECTIONS = frozenset({400, 403, 404, 409, 413, 422})
"""The statuses with which an API server rejects a pod permanently."""
MAX_DETAIL_LENGTH = 500


class TaskStoppedError(AirflowException):
    """The Airflow task was stopped: it was marked or cleared, or its worker was shut down."""


class TaskTimeoutError(AirflowException):
    """The task ran longer than it may, as found outside Airflow's own timeout."""


def unknown_end(attempt: int, image: str | None, generation: int = 1) -> Workload:
    return Workload(
        status=JobStatus.FAILURE,
        failure_reason="WorkerLost",
        detail="the Airflow task ended before the end of the workload was known; clear `run_workload` to run it again",
        queued_at=datetime.now(UTC),
        attempts=attempt,
        generation=generation,
        image=image,
    )


def end_of(
    observed: Workload | None, error: BaseException | None, pending: Workload, *, created: bool = False
) -> Workload:
    """`error` is that of the task. `created`: the cluster accepted the workload, so from then on it may have run."""
    now = datetime.now(UTC)
    if observed is None or isinstance(error, ConfigError):
        accepted = created and not isinstance(error, ConfigError)
        reason, status = _reason_if_accepted(error) if accepted else (_reason_if_rejected(error), JobStatus.MISSED)
        return replace(pending, status=status, failure_reason=reason, detail=_detail(error), ended_at=now)
    queued_at = observed.queued_at or pending.queued_at
    ended = replace(observed, queued_at=queued_at, ended_at=observed.ended_at or now)
    if observed.status is JobStatus.FAILURE:  # a Job whose pods are gone does not tell when they began
        ended = replace(ended, started_at=observed.started_at or pending.started_at)
    ended = replace(ended, attempts=pending.attempts, generation=pending.generation, earlier=pending.earlier)
    if observed.status is JobStatus.SUCCESS:
        return ended
    if isinstance(error, AirflowTaskTimeout | TaskTimeoutError) and observed.started_at:
        return replace(ended, status=JobStatus.TIMEOUT, failure_reason="ExecutionTimeout")
    if isinstance(error, TaskStoppedError):
        return replace(ended, failure_reason="Killed", detail=_detail(error))
    return ended


def end_is_known(end: Workload) -> bool:
    """Return whether the workload has ended. If not, it may still run, and another try takes it over."""
    return end.status is not JobStatus.FAILURE or end.failure_reason not in UNKNOWN_ENDS


def _reason_if_rejected(error: BaseException | None) -> str:
    match error:
        case ApiException() if error.status in REJECTIONS:
            return rejection_reason(str(error.body)) or "PodRejected"
        case ClusterError() | ConfigException():
            return "ClusterUnavailable"
        case MlMetricsError():
            return type(error).__name__.removesuffix("Error")
        case TaskStoppedError():
            return "Killed"
        case _ if is_outage(error) or isinstance(error, OSError):
            return "ClusterUnreachable"
        case _:
            return type(error).__name__


def _reason_if_accepted(error: BaseException | None) -> tuple[str | None, JobStatus]:
    match error:
        case None:
            return None, JobStatus.SUCCESS  # it succeeded, and was removed before it was observed
        case AirflowTaskTimeout() | TaskTimeoutError():
            return "ExecutionTimeout", JobStatus.TIMEOUT
        case TaskStoppedError():
            return "Killed", JobStatus.FAILURE
        case _ if is_passing(error):
            return "ClusterUnreachable", JobStatus.FAILURE
        case _:
            return type(error).__name__, JobStatus.FAILURE


def _detail(error: BaseException | None) -> str | None:
    if isinstance(error, ApiException):
        return message_of(error)[:MAX_DETAIL_LENGTH]
    if isinstance(error, ConfigException):
        return f"no kubeconfig was found: check the Kubernetes connection and KUBECONFIG ({error})"[:MAX_DETAIL_LENGTH]
    return str(error)[:MAX_DETAIL_LENGTH] if error else None


def message_of(error: BaseException) -> str:
    try:
        status = json.loads(getattr(error, "body", None) or "")
    except ValueError:
        status = None
    return str((status if isinstance(status, dict) else {}).get("message") or error)


def start_attempt(folder: RunFolder, ti: RuntimeTaskInstanceProtocol, image: str | None) -> Workload:
    """Count the next attempt, and record that its end is unknown.

    Clearing the task begins a new round with all retries. Airflow then increases `max_tries`, which identifies the
    round. If a worker died before the pod of an attempt was created, the attempt is not counted again.
    """
    document = folder.read(DOCUMENT)
    before = folder.read_workload() if is_of_round(document, ti) else None
    if document and before and not end_is_known(before) and document.get("created", 0) < before.attempts:
        start, earlier = Start(before.attempts, before.generation), before.earlier
    else:
        earlier = times_of(folder.read_workload())
        start = folder.start_attempt()
    if not is_of_round(document, ti):
        folder.write(DOCUMENT, {"round": ti.max_tries, "first_attempt": start.attempt, "created": 0})
    pending = replace(unknown_end(start.attempt, image, start.generation), earlier=earlier)
    folder.write_workload(pending)
    return pending


def write_end(folder: RunFolder, end: Workload) -> None:
    """Record the end of an attempt. Raises StorageError if the storage is not mounted: no task would find it."""
    check_storage(Settings.load())
    folder.write_workload(end)


def times_of(before: Workload | None) -> tuple[tuple[datetime, datetime | None], ...]:
    if before is None:
        return ()
    began = before.started_at or (None if end_is_known(before) else before.queued_at)
    if began is None:
        return before.earlier
    return (*before.earlier, (began, before.ended_at if end_is_known(before) else None))


def end_without_attempt(folder: RunFolder, image: str | None) -> Workload:
    """Return what is recorded if no attempt could be started: its generation has no files, which is what it has."""
    start = folder.next_start()
    pending = unknown_end(max(1, start.attempt - 1), image, start.generation)
    return replace(pending, earlier=times_of(folder.read_workload()))


def mark_attempt_created(folder: RunFolder, pending: Workload) -> None:
    """Record that the cluster has accepted the attempt, so that another try takes it over or finds it missing."""
    folder.write(DOCUMENT, {**(folder.read(DOCUMENT) or {}), "created": pending.attempts})


def is_missing(folder: RunFolder, ti: RuntimeTaskInstanceProtocol) -> bool:
    """Return whether the cluster accepted an attempt of unknown end: only a deletion removes its objects."""
    document, before = folder.read(DOCUMENT), folder.read_workload()
    if document is None or before is None or end_is_known(before) or not is_of_round(document, ti):
        return False
    return int(document.get("created", 0)) >= before.attempts


def retries_left(folder: RunFolder, pending: Workload, retries: int) -> bool:
    """An attempt that a planned fault has ended takes none away."""
    document, journal = folder.read(DOCUMENT) or {}, folder.parsed(FAULTS, FaultJournal.from_document)
    planned = {one.attempt for one in journal.restarts} if journal else set()
    if is_planned(journal, pending):
        planned.add(pending.attempts)
    return pending.attempts - int(document.get("first_attempt", pending.attempts)) < retries + len(planned)


def is_planned(journal: FaultJournal | None, end: Workload) -> bool:
    if journal is None or end.ended_at is None or end.status is not JobStatus.FAILURE or not end_is_known(end):
        return False
    return journal.excuses(end.attempts, end.ended_at.timestamp())


def end_of_round(folder: RunFolder, ti: RuntimeTaskInstanceProtocol, retries: int) -> Workload | None:
    """Return the final end that an earlier process recorded before it died; None if there is more to do."""
    before = folder.read_workload() if is_of_round(folder.read(DOCUMENT), ti) else None
    if before is None or not end_is_known(before):
        return None
    return before if before.status is JobStatus.SUCCESS or not retries_left(folder, before, retries) else None


def is_of_round(document: dict[str, Any] | None, ti: RuntimeTaskInstanceProtocol) -> bool:
    return document is not None and document.get("round") == ti.max_tries


def workload_link(cluster: ClusterAccess | None, namespace: str | None, kind: str, name: str | None) -> str | None:
    """Return the page of a pod or Job in the Google Cloud console; None for other clusters."""
    if cluster is None or not cluster.on_gke or namespace is None or name is None:
        return None
    place = "/".join(quote(str(part), safe="") for part in (cluster.location, cluster.name, namespace, name))
    return (
        f"https://console.cloud.google.com/kubernetes/{kind}/{place}/details?{urlencode({'project': cluster.project})}"
    )


def logs_command(cluster: ClusterAccess | None, workload: Workload, task_page: str) -> str:
    """Return the command that downloads the logs from Cloud Logging or Airflow, where they outlive the pod."""
    if cluster is None or workload.pod is None:
        # the log in Airflow's REST API for the page of a task in its UI
        page, _, query = task_page.partition("?")
        base, _, rest = page.partition("/dags/")
        dag, _, rest = rest.partition("/runs/")
        run, _, task = rest.partition("/tasks/")
        attempt = dict(part.partition("=")[::2] for part in query.split("&")).get("try_number", "1")
        address = f"{base}/api/v2/dags/{dag}/dagRuns/{run}/taskInstances/{task}/logs/{attempt}?full_content=true"
        return f'curl -fsS -H "Authorization: Bearer $AIRFLOW_TOKEN" {shlex.quote(address)}'
    terms = {
        "resource.type": "k8s_container",
        "resource.labels.project_id": cluster.project,
        "resource.labels.location": cluster.location,
        "resource.labels.cluster_name": cluster.name,
        "resource.labels.namespace_name": workload.namespace or "default",
        "resource.labels.pod_name": workload.pod,
    }
    query = " AND ".join(f'{name}="{value}"' for name, value in terms.items())
    since = "" if workload.queued_at is None else f' AND timestamp>="{workload.queued_at.isoformat()}"'
    return (
        f"gcloud logging read {shlex.quote(query + since)} --project={shlex.quote(str(cluster.project))} "
        "--order=asc --format='value(textPayload)'"
    )


ENDED = frozenset({"success", "failed", "skipped", "upstream_failed", "removed", "restarting"})
"""The states after which no later try continues with the workload. A running task that is cleared is restarting."""

DELETED = frozenset({"PodDeleted", "JobDeleted"})
ENDED_BY_HAND = "the task was ended from outside"


class WorkerStoppedError(BaseException):
    """The worker of the task is stopped. The workload continues.

    It is no Exception, because what the signal interrupts must not handle it as an error of its own.
    """


class StopSignal:
    """Why a task gets SIGTERM: somebody has ended it, or only its worker is stopped.

    A thread asks Airflow for the reason, and then repeats the signal: the first one may have interrupted a request to
    Airflow, and another request would wait for that one forever. Without an answer the reason stays unknown, and the
    workload is left for another process.
    """

    def __init__(self, ti: RuntimeTaskInstanceProtocol) -> None:
        self.ti = ti
        self.task_ended: bool | None = None
        """Whether somebody has ended the task; None as long as Airflow has not answered."""
        self.asking: threading.Thread | None = None

    def has_come(self) -> bool | None:
        """Return whether somebody has ended the task. The first signal only begins to ask."""
        if self.asking is None:
            self.asking = threading.Thread(target=self._ask, daemon=True)
            self.asking.start()
            return None
        return self.task_ended

    def _ask(self) -> None:
        self.task_ended = is_ended(self.ti)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)


def is_ended(ti: RuntimeTaskInstanceProtocol) -> bool:
    with FailureLogged(log.warning, "Airflow does not answer which state this task has"):
        states = ti.get_task_states(dag_id=ti.dag_id, run_ids=[ti.run_id], task_ids=[ti.task_id])
        of_run = states.get(ti.run_id, {})
        return ti.task_id not in of_run or str(of_run[ti.task_id]) in ENDED
    return False
