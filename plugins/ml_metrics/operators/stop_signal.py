"""Why a task gets SIGTERM: a user has ended it, or its worker is stopped.

Airflow sends the same signal for both, and calls `on_kill` for both. Only the state of the task differs: a task that
was marked, cleared or skipped is no longer running in Airflow.
"""

from __future__ import annotations

import signal
import sys
import threading
from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING

from ml_metrics.airflow_versions import AirflowTaskTimeout
from ml_metrics.log_lines import logger_of

if TYPE_CHECKING:
    from airflow.sdk.types import RuntimeTaskInstanceProtocol

    from ml_metrics.model import Workload
    from ml_metrics.run_folder import RunFolder

log = logger_of(__name__)
ENDED = frozenset({"success", "failed", "skipped", "upstream_failed", "removed", "restarting"})
"""The states after which no later try continues with the workload. A running task that is cleared is restarting."""

DELETED = frozenset({"PodDeleted", "JobDeleted"})
ENDED_BY_HAND = "the task was ended from outside"


class Why(Enum):
    """Why a task gets the signal."""

    UNKNOWN = "unknown"
    TASK_ENDED = "the task was ended"
    WORKER_STOPPED = "the worker is stopped"


class WorkerStoppedError(BaseException):
    """The worker of the task is stopped. The workload continues.

    It is no Exception, because what the signal interrupts must not handle it as an error of its own.
    """


class EndsWithItsTask:
    """The part of an operator that ends the workload with its task, and leaves it if only the worker is stopped.

    A thread asks Airflow for the reason of the signal, and then repeats the signal: the first one may have interrupted
    a request to Airflow, and another request would wait for that one forever. Without an answer the reason stays
    unknown, and the workload is left for another process.
    """

    _ti: RuntimeTaskInstanceProtocol | None = None
    """The task, from when it may have a workload."""
    _why = Why.UNKNOWN
    _asking: threading.Thread | None = None
    _unrecorded: RunFolder | None

    def on_kill(self) -> None:
        """End the workload if the task timed out, or somebody ended it. If its worker is stopped, leave it."""
        timed_out = isinstance(sys.exc_info()[1], AirflowTaskTimeout)
        if self._ti is None or timed_out or self._why is Why.TASK_ENDED:
            self.end_by_hand()
        elif self._asking is None:
            self._asking = threading.Thread(target=self._ask, args=(self._ti,), daemon=True)
            self._asking.start()
        elif self._why is Why.WORKER_STOPPED and self._unrecorded is not None:
            self._unrecorded = None  # the end stays unknown until another process records it
            raise WorkerStoppedError

    def _ask(self, ti: RuntimeTaskInstanceProtocol) -> None:
        self._why = Why.TASK_ENDED if is_ended(ti) else Why.WORKER_STOPPED
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)

    def or_killed(self, end: Workload) -> Workload:
        """Return how a workload ended: as killed, if it was deleted because somebody has ended its task.

        The gate may delete it before the process of the task hears of its own end, which is at its next heartbeat.
        """
        if end.failure_reason not in DELETED or self._ti is None or not is_ended(self._ti):
            return end
        return replace(end, failure_reason="Killed", detail=ENDED_BY_HAND)

    def end_by_hand(self) -> None:
        """Remove the workload and record its end."""
        self.save_logs()
        self.end_workload()
        self.record_end_by_hand()

    def save_logs(self) -> None:
        """Save the last lines of all containers."""
        raise NotImplementedError

    def end_workload(self) -> None:
        """Remove the workload from the cluster."""
        raise NotImplementedError

    def record_end_by_hand(self) -> None:
        """Record that somebody has ended the task."""
        raise NotImplementedError


def is_ended(ti: RuntimeTaskInstanceProtocol) -> bool:
    """Return whether Airflow knows a task as ended; False if Airflow does not answer."""
    try:
        states = ti.get_task_states(dag_id=ti.dag_id, run_ids=[ti.run_id], task_ids=[ti.task_id])
    except Exception as error:  # noqa: BLE001  (Airflow's errors of many kinds mean the same here)
        log.warning("Airflow does not answer which state this task has: %s", error)
        return False
    of_run = states.get(ti.run_id, {})
    return ti.task_id not in of_run or str(of_run[ti.task_id] or "") in ENDED
