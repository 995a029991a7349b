"""One run of a test for a person at a terminal, as a program that `ml-metrics run` reads: TEST CONF.

`airflow dags test` runs the tasks in its own process. Beside a running Airflow it would do harm twice: a scheduler
takes the tasks of its run, too, unless the DAG is paused; and a DAG processor ends if another process stores a new DAG
at the same moment. So where a scheduler runs, a new DAG is waited for, and the run of one that is not paused is left to
it.
"""

from __future__ import annotations

import json
import sys
import time
import warnings

from airflow.__main__ import main as airflow
from airflow.sdk.exceptions import AirflowException

from ml_metrics.airflow.versions import DagModel, DagRun, DagRunTriggeredByType, get_airflow_health, trigger_dag

PAUSE_SECONDS = 1.0
MOST_SECONDS = 180.0
"""How long a DAG processor may take to find a new test file."""


def main(test: str, conf: str) -> None:
    health = get_airflow_health()
    alive = {name for name, one in health.items() if one["status"] == "healthy"}
    if "scheduler" in alive and "dag_processor" in alive:
        _wait_for(test)
        stored = DagModel.get_current(test)
        if stored is not None and not stored.is_paused:
            sys.exit(_follow(test, _trigger(test, conf)))
    warnings.simplefilter("ignore")  # of Airflow, about itself
    sys.argv = ["airflow", "dags", "test", test, "--conf", conf]
    try:
        airflow()  # type: ignore[no-untyped-call]
    except AirflowException as error:  # no DAG of this name: a person reads the sentence, and no traceback
        sys.exit(str(error))


def _wait_for(test: str) -> None:
    end = time.monotonic() + MOST_SECONDS
    while DagModel.get_current(test) is None and time.monotonic() < end:
        time.sleep(PAUSE_SECONDS)


def _trigger(test: str, conf: str) -> str:
    run = trigger_dag(test, triggered_by=DagRunTriggeredByType.CLI, conf=json.loads(conf), logical_date=None)
    return str(run.run_id)


def _follow(test: str, run_id: str) -> int:
    """Print each task that begins, in the words of `airflow dags test`. Returns 0 if the run is green."""
    shown: set[str] = set()
    while True:
        (run,) = DagRun.find(dag_id=test, run_id=run_id)
        begun = [one for one in run.get_task_instances() if one.start_date and one.task_id not in shown]
        for one in sorted(begun, key=lambda one: one.start_date):
            shown.add(one.task_id)
            sys.stdout.write(f"<TaskInstance: {test}.{one.task_id} {run_id} [{one.state}]>\n")
        sys.stdout.flush()
        if run.state in {"success", "failed"}:
            return int(run.state == "failed")
        time.sleep(PAUSE_SECONDS)


if __name__ == "__main__":
    main(*sys.argv[1:])
