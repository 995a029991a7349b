"""Operators that stand in where the real one cannot or need not be built."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException

if TYPE_CHECKING:
    from airflow.sdk import Context


class InvalidTestFile(BaseOperator):
    """The only task of a DAG whose test file is invalid: it fails with every problem of the file."""

    def __init__(self, *, problem: str, **options: Any) -> None:
        super().__init__(**options)
        self.problem = problem

    def execute(self, context: Context) -> NoReturn:  # noqa: ARG002  (Airflow's signature)
        """Fail."""
        raise AirflowFailException(self.problem)


class WorkloadPlaceholder(BaseOperator):
    """Takes the place of the workload's operator in processes that run another task of the DAG.

    Every task runs in a process of its own that builds the DAG again. The Kubernetes libraries are needed by the
    workload's task only, and importing them takes most of a second, or three where nothing is compiled.
    """

    def execute(self, context: Context) -> NoReturn:
        """Fail: this process was started for another task."""
        raise AssertionError(f"{context['ti'].task_id} runs in a process that was started for another task")
