"""The workload's task, as processes see it that run another task of the same DAG."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from airflow.sdk import BaseOperator

if TYPE_CHECKING:
    from airflow.sdk import Context


class AnotherTask(BaseOperator):
    """Holds the place of a task that this process does not run, without importing what that needs.

    Every task is a process that builds its DAG anew. The Kubernetes libraries, of which only the workload's own task
    has a use, would cost each of the others most of a second, and where nothing is compiled three.
    """

    def execute(self, context: Context) -> NoReturn:
        """Is never asked to."""
        raise AssertionError(f"{context['ti'].task_id} runs in a process that was started for another task")
