"""Which operator runs the workload of a test."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ml_metrics.operators.workload_run import WorkloadRun
    from ml_metrics.spec.test import TestSpec


def workload_operator(test: TestSpec, **options: Any) -> WorkloadRun:
    """The task that runs a test: in one pod or on several hosts, on the cluster of the settings or its own."""
    several = test.hosts > 1
    if test.cluster is not None:
        # only now: Google's libraries cost seconds that the other tests need not pay
        from ml_metrics.operators import gke

        return (gke.RunHostsOnGke if several else gke.RunWorkloadOnGke)(test=test, **options)
    if several:
        from ml_metrics.operators.run_hosts import RunHosts

        return RunHosts(test=test, **options)
    from ml_metrics.operators.run_workload import RunWorkload

    return RunWorkload(test=test, **options)
