"""What runs many times at once: tests of this package, and the least that an Airflow could do instead."""

from __future__ import annotations

import json
import shutil
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_home import PROJECT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_home import Home


class Variant(StrEnum):
    """What each run does. The values are the rows of the table.

    The floors are the same six tasks, of which only the pod's does something.
    """

    GREEN = "passing test"
    RED = "failing test"
    LEAN = "lean floor"
    PLAIN = "plain floor"
    """Its provider is imported at the top of the file, not by the pod's task."""
    SINGLE = "pod alone"

    @property
    def is_ours(self) -> bool:
        return self in {Variant.GREEN, Variant.RED}


GOOD, BAD = 0.5, 2.0
CONDITIONS = {"loss_final": {"comparison": "less", "success_threshold": {"fixed_value": 1.0}}}
FLOOR = '''
"""DAGs of Airflow: made by the campaign."""
from airflow.sdk import DAG, BaseOperator, chain, get_parsing_context
{at_top}

class Empty(BaseOperator):
    def execute(self, context):
        return "nothing to do"


def pod(name):
    from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator

    return KubernetesPodOperator(
        task_id="run_workload", name=name, namespace="default", image="local/image:1", retries=2, retry_delay=10.0,
        config_file={kubeconfig!r}, cmds=["sh", "-c", {program!r}, name, {place!r}], logging_interval=30,
    )


def empty(task_id):
    return Empty(task_id=task_id, trigger_rule="all_done", retries=2, retry_delay=10.0)


context = get_parsing_context()
for name in {names!r} if context.dag_id is None else [context.dag_id]:
    with DAG(name, schedule=None, catchup=False, max_active_runs=1) as dag:
        workload = pod(name) if {always_pod!r} or context.task_id in (None, "run_workload") else empty("run_workload")
        if {graph!r}:
            collected = [empty("collect_metrics"), empty("measure_goodput")]
            chain(workload, collected, *map(empty, ("judge_run", "load_history", "assert_success")))
    globals()[name] = dag
'''
WORKLOAD_SECONDS = 20
"""Real workloads do not meet the race of Airflow (docs/scaling.md) that one meets which ends within seconds."""
PROGRAM = f'sleep {WORKLOAD_SECONDS}; date +%s.%N >"$1/$0.ended"'
"""The workload: it waits, and leaves the time of its end in a file."""


def write_tests(variant: Variant, names: Sequence[str], home: Home, dags: Path, kubeconfig: str) -> None:
    """Make these tests the only ones that Airflow finds."""
    for old in (*dags.glob("*.py"), *home.configs.glob("*.yaml")):
        old.unlink()
    if not variant.is_ours:
        (dags / "fleet.py").write_text(
            FLOOR.format(
                at_top="import airflow.providers.cncf.kubernetes.operators.pod" if variant is Variant.PLAIN else "",
                kubeconfig=kubeconfig,
                program=PROGRAM,
                place=str(home.shared),
                names=list(names),
                always_pod=variant is not Variant.LEAN,
                graph=variant is not Variant.SINGLE,
            )
        )
        return
    loss = GOOD if variant is Variant.GREEN else BAD
    point = json.dumps({"step": 1, "loss": loss})
    program = f"echo '{point}' >\"$ML_METRICS_RUN_DIR/metrics.jsonl\"; {PROGRAM}"
    for name in names:
        home.add_test(
            name,
            command=["sh", "-c", program, name, str(home.shared)],
            emails=["a@example.com"],
            metric_collection_config={"sources": {"json_lines": {"files": ["metrics.jsonl"]}}},
            regression_test_config={"metric_success_conditions": CONDITIONS},
        )
    # the files of this package as they are deployed, with the sender of messages and the other DAGs of its own
    for file in (PROJECT / "dags").glob("*.py"):
        if file.name != "mnist_cpu.py":
            shutil.copy(file, dags)
