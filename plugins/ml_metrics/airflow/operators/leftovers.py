"""Workloads that no process will take up any more are removed from the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ml_metrics.core.model import UNKNOWN_ENDS
from ml_metrics.core.text import logger_of
from ml_metrics.measure import read_logs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from airflow.sdk import BaseOperator

    from ml_metrics.config.definition import TestDefinition
    from ml_metrics.store.run_folder import RunFolder

    ClassOf = Callable[[TestDefinition], type[BaseOperator]]

log = logger_of(__name__)


def remove_leftovers(test: TestDefinition, context: Mapping[str, Any], folder: RunFolder, class_of: ClassOf) -> None:
    """Remove the workload of a run if its last process left it behind: no later try will take it up.

    What the cluster does not let go now ends at the deadline of its pod. The verdict of the run does not wait for it.
    """
    workload = folder.read_workload()
    if workload is None or workload.pod is None or workload.failure_reason not in UNKNOWN_ENDS:
        return
    try:
        _operator(test, context, class_of).remove_objects()
    except Exception as error:  # noqa: BLE001  (a run never fails because of what it leaves)
        log.warning("the workload %s could not be removed; its deadline ends it: %s", workload.pod, error)
    else:
        log.warning("removed the workload %s: no try continues with it", workload.pod)


def remove_recorded(test: TestDefinition, context: Mapping[str, Any], folder: RunFolder, class_of: ClassOf) -> None:
    """Remove the workload of a process that recorded its end and died, maybe before it removed the workload.

    Its logs are saved first, if that process had not saved them.
    """
    workload = folder.read_workload()
    if workload is None or workload.pod is None:
        return
    try:
        operator = _operator(test, context, class_of)
        if workload.attempts not in {one.attempt for one in read_logs(folder)}:
            operator.observe()
            operator.save_logs(folder)
        operator.remove_objects()
    except Exception as error:  # noqa: BLE001  (a run never fails because of what it leaves)
        log.warning("the workload %s has ended, and may still be in the cluster: %s", workload.pod, error)


def _operator(test: TestDefinition, context: Mapping[str, Any], class_of: ClassOf) -> Any:
    """Return the operator of a run's workload, connected to its cluster."""
    from ml_metrics.airflow.operators.run import RUN_KEY, run_of

    operator: Any = class_of(test)(test=test, task_id="run_workload")
    operator.take_over(context)
    operator.labels = {RUN_KEY: run_of(test.name, context).key}
    operator.use_cluster()
    return operator
