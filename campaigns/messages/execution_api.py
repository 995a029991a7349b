"""What a supervisor needs of Airflow's execution API for one try of a task, inside the supervisor's own process.

The answers have the shapes of the real server; the requests that change the task's state are recorded in a file.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx

UPSTREAM_TASKS = ("run_workload", "collect_metrics", "measure_goodput", "judge_run", "load_history")


@dataclass(frozen=True)
class ExecutionApi:
    """The server's side of one try of one task. All earlier tasks of the run have succeeded."""

    dag: str
    run: str
    try_number: int
    retries: int
    states: Path
    """Gets a line for each state that the supervisor reports."""

    def answer(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path.rstrip("/")
        if path.endswith("/run"):
            self._record("running")
            # Airflow tries a task as often as it has retries, and once more
            tries = {"max_tries": self.retries, "should_retry": self.try_number <= self.retries}
            return httpx.Response(200, json={**context_of(self.dag, self.run), **tries})
        if "/dag-runs/" in path and request.method == "GET":
            ended = end_of_run(self.states.with_name(f"{path.split('/')[-3]}.states"))
            return httpx.Response(200, json={"state": ended.read_text().strip() if ended.exists() else "running"})
        if path.endswith("/state"):
            self._record(json.loads(request.content)["state"])
            return httpx.Response(204)
        if path.endswith("/task-instances/states"):
            return httpx.Response(200, json={"task_states": {self.run: dict.fromkeys(UPSTREAM_TASKS, "success")}})
        if "/connections/" in path or "/variables/" in path:
            return httpx.Response(404, json={"detail": {"reason": "not_found", "message": "none is defined"}})
        dag = {"dag_id": self.dag, "is_paused": False, "bundle_name": "dags-folder", "bundle_version": None}
        return httpx.Response(200, json=dag if "/dags/" in path else {})

    def _record(self, state: str) -> None:
        with self.states.open("a") as file:
            file.write(f"{self.try_number} {state} {time.time():.3f}\n")


def context_of(dag: str, run: str) -> dict[str, Any]:
    """Return what the server tells a task about its run."""
    now = datetime.now(UTC).isoformat()
    about = {
        "dag_id": dag,
        "run_id": run,
        "logical_date": None,
        "data_interval_start": None,
        "data_interval_end": None,
        "run_after": now,
        "start_date": now,
        "end_date": None,
        "run_type": "manual",
        "state": "running",
        "consumed_asset_events": [],
        "partition_key": None,
    }
    return {"dag_run": about, "max_tries": 0, "should_retry": False}


def end_of_run(states: Path) -> Path:
    """Return the file that has the state of a run that has ended, beside the states of its task."""
    return states.with_suffix(".ended")


def reported_state(states: Path, try_number: int) -> str:
    """Return the last state of a try that the server knows; empty if it never started."""
    lines = states.read_text().splitlines() if states.exists() else []
    own = [line.split()[1] for line in lines if line.split()[0] == str(try_number)]
    return own[-1] if own else ""
