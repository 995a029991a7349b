"""DAGs of the provider's own operators for pods and Jobs, and a main that runs them all in one Airflow process.

It writes one JSON object: for each DAG, its state and the result of its task.
"""

from __future__ import annotations

import json
import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from airflow.providers.cncf.kubernetes.operators.job import KubernetesJobOperator
from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator
from airflow.sdk import DAG

SECOND = timedelta(seconds=1)
KEPT = {"on_finish_action": "keep_pod"}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "plain": ("for i in 1 2 3; do echo line $i; sleep 0.3; done", {}),
    "failing": ("echo before; exit 3", {"on_finish_action": "delete_succeeded_pod"}),
    "too-slow": ("sleep 600", {"execution_timeout": 5 * SECOND}),
    "past-deadline": ("sleep 600", {"active_deadline_seconds": 2, **KEPT}),
    "deferred": ("echo deferred; sleep 1", {"deferrable": True, "poll_interval": 1}),
    "deferred-failing": ("exit 4", {"deferrable": True, "poll_interval": 1, **KEPT}),
    "returning": ("echo '{\"loss\": 1.5}' > /airflow/xcom/return.json", {"do_xcom_push": True}),
    "kept": ("echo kept", KEPT),
    "no-image": ("true", {"image": "registry.invalid/x", "startup_timeout_seconds": 4}),
    "greedy": (
        "python3 -c \"import time; x = b'x' * 200_000_000; time.sleep(60)\"",
        {"container_resources": {"limits": {"memory": "100Mi"}}, **KEPT},
    ),
}
WORKERS = {"parallelism": 2, "completions": 2, "completion_mode": "Indexed", "backoff_limit": 0}
WAITING = {"wait_until_job_complete": True, "job_poll_interval": 1, **WORKERS, **KEPT}
JOBS: dict[str, tuple[str, dict[str, Any]]] = {
    "job": ("echo worker $JOB_COMPLETION_INDEX", WAITING),
    "job-deferred": ("echo worker $JOB_COMPLETION_INDEX", {"deferrable": True, **WAITING}),
    "job-failing": ("test $JOB_COMPLETION_INDEX = 0 && sleep 600; exit 3", WAITING),
}


def dag_of(name: str, script: str, **options: Any) -> DAG:
    with DAG(name, start_date=datetime(2026, 1, 1), schedule=None) as dag:
        operator = KubernetesJobOperator if name in JOBS else KubernetesPodOperator
        operator(
            task_id="run",
            name=name,
            namespace="default",
            **{"image": "python", **options},
            cmds=["sh", "-c"],
            arguments=[script],
            in_cluster=False,
            labels={"case": name},
        )
    return dag


DAGS = {name: dag_of(name, script, **options) for name, (script, options) in (CASES | JOBS).items()}
globals().update({f"dag_{name}": dag for name, dag in DAGS.items()})


def main() -> None:
    names = sys.argv[2:] or list(DAGS)
    results = {}
    for name in names:
        run = DAGS[name].test()
        returned = run.get_task_instance("run").xcom_pull(task_ids="run", key="return_value")
        results[name] = {"state": str(run.state), "returned": returned}
    Path(sys.argv[1]).write_text(json.dumps(results))


if __name__ == "__main__":
    main()
