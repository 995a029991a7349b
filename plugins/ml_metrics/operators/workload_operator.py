"""Choosing the operator that runs the workload of a test."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import get_parsing_context

from ml_metrics.operators.placeholders import WorkloadPlaceholder

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator

    from ml_metrics.config.definition import TestDefinition


def workload_operator(test: TestDefinition, *, task_id: str, **options: Any) -> BaseOperator:
    """Return the operator for a test: for one pod or several hosts, on the default cluster or a GKE cluster."""
    if get_parsing_context().task_id not in {None, task_id}:
        return WorkloadPlaceholder(task_id=task_id)
    options = {"task_id": task_id, **options}
    several = test.hosts > 1
    if test.cluster is not None:
        # imported here, because Google's libraries take seconds to import
        from ml_metrics.operators import gke

        return (gke.RunHostsOnGke if several else gke.RunWorkloadOnGke)(test=test, **options)
    if several:
        from ml_metrics.operators.run_hosts import RunHosts

        return RunHosts(test=test, **options)
    from ml_metrics.operators.run_workload import RunWorkload

    return RunWorkload(test=test, **options)
