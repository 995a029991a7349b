"""Parsing the DAGs of test files, compared with the same number of hand-written DAGs with six tasks in one file.

Each measurement is a separate process that imports what both need, parses one DAG file and serialises its DAGs, as
Airflow's DAG processor does. Ours also reads a test file for each DAG. The second row is the time in which the process
of a task builds its DAG, compared with a file that defines only that DAG.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

PROJECT = Path(__file__).parents[1]
DAGS, ROUNDS = 1_000, 3
MAX_RATIO, MAX_IMPORT_SECONDS = 1.3, 0.3
"""The maximum ratio to the hand-written DAGs, and the maximum number of seconds of our own imports."""

PLAIN = '''
from datetime import datetime, timedelta

from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator
from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import DAG, Param, chain


def work():
    """Do the work of the task."""


for number in range({dags}):
    with DAG(
        dag_id=f"tf-m{{number}}-func-v5litepod-16",
        schedule=f"{{number % 60}} 8 * * *",
        description="A model test",
        doc_md="# A model test\\n\\nOwner: vision-team.",
        tags={{"ml-metrics", "tf", "v5litepod-16"}},
        params={{"epochs": Param(10, type="integer", minimum=1)}},
        default_args={{"owner": "vision-team"}},
        catchup=False,
        max_active_runs=1,
    ) as dag:
        run_workload = KubernetesPodOperator(
            task_id="run_workload",
            name="test",
            namespace="default",
            image="gcr.io/my-project/model:nightly",
            cmds=["python3", "train.py", "--epochs={{{{ params.epochs }}}}"],
            startup_timeout_seconds=600,
            execution_timeout=timedelta(hours=2),
            retries=1,
        )
        options = {{"retries": 2, "retry_delay": 10.0, "retry_exponential_backoff": True, "trigger_rule": "all_done"}}
        collect, goodput, judge, load, gate = (
            PythonOperator(task_id=name, python_callable=work, **options)
            for name in ("collect_metrics", "measure_goodput", "judge_run", "load_history", "assert_success")
        )
        chain(run_workload, [collect, goodput], judge, load, gate)
    globals()[dag.dag_id] = dag
'''

TEST = """\
framework: tf
model: m{number}
mode: func
accelerator: v5litepod-16
image: gcr.io/my-project/model:nightly
command: [python3, train.py, "--epochs={{{{ params.epochs }}}}"]
params: {{epochs: {{default: 10, type: integer, minimum: 1}}}}
schedule: "{minute} 8 * * *"
timeout: 1h30m
owner: vision-team
regression_test_config:
  required_metrics: [loss_final]
  metric_success_conditions:
    accuracy_final: {{comparison: greater, success_threshold: {{fixed_value: 0.96}}}}
    total_wall_time: {{comparison: less, success_threshold: {{stddevs_from_mean: 5.0}}}}
"""

PARSE = """
import json, sys, time
import airflow.sdk
from airflow.providers.cncf.kubernetes.operators import pod
from airflow.providers.standard.operators import python
from airflow.dag_processing.dagbag import BundleDagBag
from airflow.serialization.serialized_objects import DagSerialization
if sys.argv[3]:
    import ml_metrics.airflow.dags
folder, file = sys.argv[1:3]
begin = time.process_time()
bag = BundleDagBag(dag_folder=file, bundle_path=folder, bundle_name="dags-folder")
size = sum(len(json.dumps(DagSerialization.to_dict(dag))) for dag in bag.dags.values())
assert not bag.import_errors, bag.import_errors
print(json.dumps([time.process_time() - begin, len(bag.dags), size]))
"""

TASK = """
import sys, time
import airflow.sdk.execution_time.task_runner
from airflow.dag_processing.dagbag import BundleDagBag
from airflow.sdk.definitions._internal.dag_parsing_context import _airflow_parsing_context_manager
folder, file = sys.argv[1:]
begin = time.process_time()
with _airflow_parsing_context_manager(dag_id="tf-m0-func-v5litepod-16", task_id="judge_run"):
    bag = BundleDagBag(dag_folder=file, bundle_path=folder, bundle_name="dags-folder")
assert bag.dags and not bag.import_errors, bag.import_errors
print(time.process_time() - begin)
"""

IMPORT = "import time; b = time.process_time(); {}; print(time.process_time() - b)"
NEEDED = "import airflow.sdk; from airflow.providers.cncf.kubernetes.operators import pod"


def main() -> None:
    """Print the measurements."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        plain, single, configs = folder / "plain.py", folder / "single.py", folder / "configs"
        plain.write_text(PLAIN.format(dags=DAGS))
        single.write_text(PLAIN.format(dags=1))
        configs.mkdir()
        for number in range(DAGS):
            (configs / f"test-{number}.yaml").write_text(TEST.format(number=number, minute=number % 60))
        environment = {
            **os.environ,
            "AIRFLOW_HOME": str(folder / "home"),
            "AIRFLOW__ML_METRICS__CONFIG_ROOT": str(configs),
            "PYTHONPATH": str(PROJECT / "plugins"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        }
        subprocess.run(["airflow", "db", "migrate"], env=environment, capture_output=True, check=True)
        ours, peer, task, single_task, needed, more = [], [], [], [], [], []
        for _ in range(ROUNDS):
            ours.append(_parse(PROJECT / "dags" / "ml_tests.py", environment, ours=True))
            peer.append(_parse(plain, environment, ours=False))
            task.append(_build(PROJECT / "dags" / "ml_tests.py", environment))
            single_task.append(_build(single, environment))
            needed.append(float(_python(IMPORT.format(NEEDED), environment)))
            more.append(float(_python(IMPORT.format(f"{NEEDED}; import ml_metrics.airflow.dags"), environment)))
    base, added = statistics.median(needed), statistics.median(more) - statistics.median(needed)
    print(f"{'measurement':<60}{'ours':>9}{'peer':>9}{'ratio':>8}{'target':>8}  met")
    what = f"parse and serialise {DAGS} DAGs (peer: written by hand)"
    _print_row(what, statistics.median(ours), statistics.median(peer), MAX_RATIO)
    what = f"a task's process builds its DAG, of {DAGS} (peer: of one)"
    _print_row(what, statistics.median(task), statistics.median(single_task), 1.0)
    what = "our imports (peer: airflow.sdk and KubernetesPodOperator)"
    met = "yes" if added < MAX_IMPORT_SECONDS else "NO"
    print(f"{what:<60}{added:>8.2f}s{base:>8.2f}s{added / base:>8.2f}{MAX_IMPORT_SECONDS:>7.2f}s  {met}")


def _print_row(what: str, mine: float, theirs: float, max_ratio: float) -> None:
    met = "yes" if mine / theirs <= max_ratio else "NO"
    print(f"{what:<60}{mine:>8.2f}s{theirs:>8.2f}s{mine / theirs:>8.2f}{max_ratio:>8.2f}  {met}")


def _parse(file: Path, environment: dict[str, str], *, ours: bool) -> float:
    seconds, dags, _ = json.loads(_python(PARSE, environment, str(file.parent), str(file), "ours" if ours else ""))
    assert dags == DAGS, f"{file} has {dags} DAGs"
    return float(seconds)


def _build(file: Path, environment: dict[str, str]) -> float:
    return float(_python(TASK, environment, str(file.parent), str(file)))


def _python(program: str, environment: dict[str, str], *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(done.stdout[-2000:] + done.stderr[-4000:])
    return done.stdout.strip().splitlines()[-1]


if __name__ == "__main__":
    main()
