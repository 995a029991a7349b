"""The operator that runs the workload of a test, those that take its place, and what the gate does with its remains."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from airflow.sdk import BaseOperator, get_parsing_context

from ml_metrics.airflow.versions import AirflowFailException
from ml_metrics.config.clusters import cluster_of
from ml_metrics.core.errors import FailureLogged
from ml_metrics.core.extras import require
from ml_metrics.core.model import UNKNOWN_ENDS
from ml_metrics.core.text import logger_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow.sdk import Context

    from ml_metrics.config.definition import TestDefinition
    from ml_metrics.store.run_folder import RunFolder

log = logger_of(__name__)


class InvalidTestFile(BaseOperator):
    """The only task of a DAG whose test file is invalid: it fails with every problem of the file."""

    def __init__(self, *, problem: str, **options: Any) -> None:
        super().__init__(**options)
        self.problem = problem

    def execute(self, context: Context) -> NoReturn:
        raise AirflowFailException(self.problem)


class WorkloadPlaceholder(BaseOperator):
    """Takes the place of the workload's operator in processes that run another task of the DAG.

    Every task runs in a process of its own that builds the DAG again. Only the workload's task needs the Kubernetes
    libraries, and importing them takes most of a second, or three if nothing is compiled.
    """

    def execute(self, context: Context) -> NoReturn:
        raise AssertionError(f"{context['ti'].task_id} runs in a process that was started for another task")


def workload_operator(test: TestDefinition, *, task_id: str, **options: Any) -> BaseOperator:
    if get_parsing_context().task_id not in {None, task_id}:
        return WorkloadPlaceholder(task_id=task_id)
    return operator_class(test)(test=test, task_id=task_id, **options)


def operator_class(test: TestDefinition) -> type[BaseOperator]:
    """Return the class of the operator for a test. The first call imports its libraries, which takes seconds."""
    cluster = cluster_of(test)
    if cluster is not None and cluster.on_gke:
        require("google", f"the GKE cluster {cluster.name} of {test.name}", "airflow.providers.google")
        from ml_metrics.airflow.operators.gke import RunWorkloadOnGke

        return RunWorkloadOnGke
    from ml_metrics.airflow.operators.run_workload import RunWorkload

    return RunWorkload


def remove_leftovers(test: TestDefinition, context: Mapping[str, Any], folder: RunFolder) -> None:
    """Remove the workload of a run if its last process left it behind: no later try will take it up.

    What the cluster does not let go now ends at the deadline of its pod. The verdict of the run does not wait for it.
    """
    workload = folder.read_workload()
    if workload is None or workload.pod is None or workload.failure_reason not in UNKNOWN_ENDS:
        return
    with FailureLogged(log.warning, f"the workload {workload.pod} could not be removed; its deadline ends it"):
        operator: Any = operator_class(test)(test=test, task_id="run_workload")
        operator.attach(context)
        operator.remove_objects()
        log.warning("removed the workload %s: no try continues with it", workload.pod)
