"""What Airflow knows about the tasks of one run, for tests that play them without Airflow."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

from airflow.sdk.execution_time.context import OutletEventAccessors

NOW = datetime.now(UTC)


class Airflow:
    """The values that tasks of one run leave in Airflow, and their states."""

    def __init__(self, **states: str) -> None:
        self.states, self.values = states, dict[tuple[str, str], Any]()
        self.clear_number = 0

    def ti(self, task: str, **more: Any) -> Any:
        return SimpleNamespace(
            dag_id="t", run_id="r", task_id=task, log_url="", try_number=1, max_tries=5, **more,
            xcom_push=lambda key, value: self.values.__setitem__((task, key), value),
            xcom_pull=lambda task_ids, key: self.values.get((task_ids, key)),
            get_task_states=lambda **_: {"r": self.states},
        )  # fmt: skip

    def context(self, task: str) -> dict[str, Any]:
        """Return what the next process of a task gets. Airflow removes the values of its last one."""
        self.values = {name: value for name, value in self.values.items() if name[0] != task}
        dag_run = SimpleNamespace(
            dag_id="t", run_id="r", start_date=NOW, run_after=NOW, clear_number=self.clear_number, conf={}
        )
        return {"dag_run": dag_run, "ti": self.ti(task), "outlet_events": OutletEventAccessors()}

    def clear(self) -> None:
        """Clear the whole run, as a user does. The values of its tasks stay."""
        self.clear_number += 1
        self.states = {}
