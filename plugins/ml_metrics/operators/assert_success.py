"""The gate: the only task that decides whether a run is green."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowFailException

from ml_metrics import steps
from ml_metrics.operators.task import TestTask

if TYPE_CHECKING:
    from collections.abc import Mapping


class AssertSuccess(TestTask):
    """Fail, with every reason, if the workload, a verdict or a task before this one was not well."""

    def perform(self, context: Mapping[str, Any]) -> str:
        """Gather the reasons; none means that the run is green."""
        folder = self.folder(context)
        folder.forget("gate")  # of an earlier try: if this process dies now, nobody shall read it as this one's word
        gate = steps.close_gate(folder, self.upstream(context))
        if gate.reasons:
            raise AirflowFailException("; ".join(gate.reasons))
        return "every task, the workload and every verdict are well"

    def upstream(self, context: Mapping[str, Any]) -> dict[str, str]:
        """The state of each task before this one. A task that Airflow does not know is one that never ran."""
        ti = context["ti"]
        names = [task for task in steps.TASKS if task in self.get_flat_relative_ids(upstream=True)]
        states = ti.get_task_states(dag_id=ti.dag_id, run_ids=[ti.run_id], task_ids=names).get(ti.run_id, {})
        return {name: str(states.get(name) or "missing") for name in names}
