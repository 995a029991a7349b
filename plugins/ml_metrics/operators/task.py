"""What every task of a test knows: its test, its run and its run folder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException

from ml_metrics.errors import ConfigError, UnreadableInputError
from ml_metrics.model import Run
from ml_metrics.run_folder import RunFolder
from ml_metrics.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ml_metrics.config.definition import TestDefinition


class TestTask(BaseOperator):
    """A task of a test. It runs whatever became of the tasks before it: that is what the gate at the end is for."""

    def __init__(self, *, test: TestDefinition, trigger_rule: str = "all_done", **options: Any) -> None:
        super().__init__(trigger_rule=trigger_rule, **options)
        self.test = test

    def execute(self, context: Mapping[str, Any]) -> str:
        """Perform the task. Only what another try may mend is tried again: a file that is wrong stays wrong."""
        try:
            return self.perform(context)
        except (ConfigError, UnreadableInputError) as error:
            raise AirflowFailException(str(error)) from error

    def perform(self, context: Mapping[str, Any]) -> str:
        """Do the task's work, and return a line for people."""
        raise NotImplementedError(f"{type(self).__name__} has no work")

    def folder(self, context: Mapping[str, Any]) -> RunFolder:
        """The run folder."""
        return folder_of(self.test.name, context)


def run_of(test: str, context: Mapping[str, Any]) -> Run:
    """The identity of the run that a context belongs to.

    It is made from the run's id alone: a run that somebody triggered has no logical date.
    """
    dag_run = context["dag_run"]
    return Run(test=test, dag_id=dag_run.dag_id, run_id=dag_run.run_id, deployment=Settings.load().deployment)


def folder_of(test: str, context: Mapping[str, Any]) -> RunFolder:
    """The run folder of the run that a context belongs to."""
    return RunFolder.of(run_of(test, context), Settings.load().storage_root)
