"""What the tasks of a run that passes import: each is a process, where importing numpy costs as much as its work."""

from __future__ import annotations

from pathlib import Path

from ml_metrics.pipeline import steps
from warm_python import warm_python

FOR_EVERY_TASK = """
import sys
from datetime import UTC, datetime, timedelta
from ml_metrics.pipeline import steps
from ml_metrics.config.definition import TestDefinition
from ml_metrics.airflow.connections import warehouse
from ml_metrics.core.model import JobStatus, Run, Workload
from ml_metrics.airflow.callbacks import post_run_message
from ml_metrics.store.run_folder import RunFolder
from ml_metrics.pipeline.run_state import RunState
from ml_metrics.core.settings import Settings
"""
RUN = """
less = {"comparison": "less", "success_threshold": {"fixed_value": 100}}
conditions = {"metric_success_conditions": {"total_wall_time": less}}
test = TestDefinition(name="t", image="i", command=("c",), regression_test_config=conditions)
run = Run("t", "t", "manual__1", "local")
folder = RunFolder.of(run, Settings.load().storage_root)
if sys.argv[1] == "collect_metrics":
    identity = {"test": "t", "dag_id": "t", "run_id": "manual__1", "deployment": "local", "params": {}, "trial": []}
    folder.write("run", {**identity, "test_file": test.model_dump(mode="json", exclude_unset=True)})
    now = datetime.now(UTC)
    folder.write_workload(Workload(JobStatus.SUCCESS, started_at=now - timedelta(seconds=60), ended_at=now))
    steps.collect(test, RunState(folder))
state = RunState(folder)
match sys.argv[1]:
    case "measure_goodput":
        assert not steps.measure_goodput(test, state).found
    case "judge_run":
        steps.measure_efficiency(test, state)
        with warehouse() as opened:
            assert steps.judge(test, run, state, opened).passed
    case "load_history":
        with warehouse() as opened:
            steps.load(test, run, state, opened)
    case "assert_success":
        assert not steps.decide(state, dict.fromkeys(steps.TASKS[:-1], "success")).reasons
        post_run_message(test, run, state)
heavy = {"numpy", "pandas", "pyarrow", "kubernetes", "tensorboard", "google.api_core", "sqlalchemy"}
print(*sorted(heavy & set(sys.modules)))
"""
IMPORTED = {
    "collect_metrics": "numpy",
    "measure_goodput": "",
    "judge_run": "sqlalchemy",
    "load_history": "sqlalchemy",
    "assert_success": "sqlalchemy",
}
"""What each task imports of the libraries that take long. Those of `run_workload` are in `test_dags_alone.py`."""


def test_a_task_imports_only_what_it_needs(tmp_path: Path) -> None:
    places = {"AIRFLOW_HOME": str(tmp_path), "PYTHONPATH": str(Path(steps.__file__).parents[2])}
    imported = {}
    with warm_python(FOR_EVERY_TASK, FOR_EVERY_TASK + RUN, **places) as python:
        for task in IMPORTED:
            done = python.run(task, folder=tmp_path)
            assert done.returncode == 0, done.output
            imported[task] = done.output.splitlines()[-1]
    assert imported == IMPORTED
