"""Planned faults on a real cluster: `faults` of a test file, on one host and on two, and on nothing but its own pods.

`make campaign NAME=kubernetes` plays one run, `make campaign NAME=faults-on-kubernetes` twelve under a whole Airflow
whose workers and triggerer it kills.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client

from airflow_home import PROJECT, Home
from campaigns.kubernetes.access import Access, access, documented_role
from campaigns.kubernetes.cluster import FIRST_WITH_INDEXED_JOBS, Cluster, version
from campaigns.kubernetes.recorder import Requests, recording
from campaigns.pace import settings
from innocent import Innocent
from servers.indexed_jobs import IndexedJobs
from servers.job_sets import JobSets, controlled
from standalone_airflow import standalone, wait_until

pytestmark = [pytest.mark.e2e]
MOUNTED = (PROJECT / "include", PROJECT / "plugins" / "ml_metrics_telemetry")
RUNS = int(os.environ.get("ML_METRICS_FAULTS_ON_KUBERNETES", "0"))
CASES = [int(one) for one in os.environ.get("ML_METRICS_FAULTS_CASES", "").split()] or list(range(RUNS))
"""Those of a seed to play again."""
SEED = int(os.environ.get("ML_METRICS_SEED", str(random.SystemRandom().randrange(10**6))))
AT_ONCE = 4
LATE = 1 if RUNS else 10
"""How many seconds late a fault may be at its step; while CI plays other things beside it, more."""
FIRST_WITH_BOUNDED_MEMORY = (1, 22)
PROGRAM = """
cd {project}
export PYTHONPATH={packages}
mkdir -p "$MODEL_DIR/away"
if [ -d /cache ]; then  # whose disk is full for a while
    while sleep 0.1; do stat -fc %f /cache >>"$MODEL_DIR/free"; done &
fi
job=${{KUBERNETES_JOB_SET:-$KUBERNETES_JOB}}
if [ -n "$job" ]; then  # a cluster without DNS: the first host writes its address to a file
    place=$MODEL_DIR/address-$job
    if [ "$JOB_COMPLETION_INDEX${{ML_METRICS_SLICE:-0}}" = 00 ]; then
        hostname -i > "$place.new" && mv "$place.new" "$place"
    fi
    until [ -e "$place" ]; do sleep 0.1; done
    export ML_METRICS_FIRST_HOST=$(cat "$place")
fi
exec python3 include/workloads/resumable.py --steps={steps} --step_seconds=0.1 --save_every=10
"""
LASTING = {"freeze(2s)": 2, "slow(2x, 4s)": 4, "disk_full(2s)": 2, "lose_storage(away, 2s)": 2}
KINDS = ("kill", "terminate", "delete_pod", "evict", "out_of_memory", *LASTING)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """An Airflow with the permissions that docs/faults.md asks for, besides those of docs/kubernetes.md."""
    if not os.environ.get("ML_METRICS_TEST_KUBERNETES"):
        pytest.skip("`make campaign NAME=kubernetes` runs this on the cluster of KUBECONFIG")
    home, role = Home.make(tmp_path_factory.mktemp("airflow")), documented_role()
    (block,) = re.findall(r"```console\nrules:\n(.*?)```", (PROJECT / "docs" / "faults.md").read_text(), re.DOTALL)
    role["rules"] += yaml.safe_load(block)
    with access(role) as granted, with_job_sets(granted) as requests:
        kubeconfig = Path(home.path / "kubeconfig")
        granted.write_kubeconfig(kubeconfig, requests.url)
        policy = home.path / "policy.yaml"
        policy.write_text(json.dumps({"host_paths": [str(home.runs), *map(str, MOUNTED)]}))
        extra = {"kube_config_path": str(kubeconfig), "namespace": granted.namespace}
        environment = {
            "AIRFLOW__ML_METRICS__CLUSTER": "kubernetes",
            "AIRFLOW__ML_METRICS__POLICY": str(policy),
            "AIRFLOW_CONN_KUBERNETES_DEFAULT": json.dumps({"conn_type": "kubernetes", "extra": extra}),
        }
        yield Cluster(home, granted, requests, environment)


@contextmanager
def with_job_sets(granted: Access) -> Iterator[Requests]:
    """The cluster, and a controller of JobSets; on an old one, which has no Indexed Jobs, one of those, too."""
    code = client.VersionApi(granted.admin).get_code()
    indexed = IndexedJobs(granted.admin)
    is_old = (int(code.major), int(code.minor.rstrip("+"))) < FIRST_WITH_INDEXED_JOBS
    jobs: Any = indexed if is_old else client.BatchV1Api(granted.admin)
    served = JobSets(jobs, granted.namespace)
    if is_old:
        print(f"Kubernetes {code.git_version} has no Indexed Jobs: a controller of the tests makes their pods")

    def answer(method: str, path: str, body: bytes) -> tuple[int, bytes] | None:
        return served.answer(method, path, body) or (indexed.answer(method, path, body) if is_old else None)

    with recording(granted.server, granted.authority, answer) as requests, controlled(served):
        yield requests


def bounds_memory(cluster: Cluster) -> bool:
    """Whether volumes in memory have a size; an old kubelet has to be told that they do."""
    (node,) = cluster.core.list_node(limit=1).items
    found = cluster.core.connect_get_node_proxy_with_path(node.metadata.name, "configz")
    return version(cluster) >= FIRST_WITH_BOUNDED_MEMORY or "'SizeMemoryBackedVolumes': True" in str(found)


def add(cluster: Cluster, name: str, *faults: dict[str, Any], steps: int, **content: Any) -> str:
    volumes: dict[str, Any] = {str(path): {"host_path": str(path), "read_only": True} for path in MOUNTED}
    if any(one["what"].startswith("disk_full") for one in faults):
        volumes["/cache"] = {"memory": "1Mi"}
    program = PROGRAM.format(project=PROJECT, packages=MOUNTED[1].parent, steps=steps)
    return cluster.add_test(
        name,
        "",
        command=["sh", "-c", program],
        volumes=volumes,
        faults=list(faults),
        pod={"spec": {"terminationGracePeriodSeconds": 1}},
        resources={"memory": "128Mi"},
        **content,
    )


def document(cluster: Cluster, test: str, name: str) -> dict[str, Any]:
    file = max((cluster.home.runs / test).glob(f"*/_ml_metrics/{name}.json"), key=lambda one: one.stat().st_mtime)
    found: dict[str, Any] = json.loads(file.read_text())
    return found


def begun(cluster: Cluster, test: str) -> list[str]:
    found = list((cluster.home.runs / test).glob("*/_ml_metrics/faults.json"))
    return [one["state"] for one in json.loads(found[0].read_text())["faults"]] if found else []


def wrong_beside(cluster: Cluster) -> list[str]:
    """What was done to a run of the same program that has no faults."""
    workload = document(cluster, "beside", "workload")
    fine = (workload["status"], workload["attempts"]) == ("success", 1)
    return [] if fine else [f"beside it: {workload['status']} after {workload['attempts']} attempts"]


def wrong_in(cluster: Cluster, test: str, restarts: int) -> list[str]:
    workload = document(cluster, test, "workload")
    if (workload["status"], workload["attempts"]) != ("success", 1 + restarts):
        return [f"{workload['status']} ({workload['failure_reason']}) after {workload['attempts']} attempts"]
    wrong, folder = [], next((cluster.home.runs / test).iterdir())
    for one in document(cluster, test, "metrics")["faults"]:
        full = one["what"].startswith("disk_full")
        refused = full and not bounds_memory(cluster)
        if one["state"] != ("refused" if refused else "done"):
            wrong.append(f"{one['what']}: {one['state']}, {one['note']}")
        if one["state"] == "done" and (one["recovered"] is None or one["late"] > LATE):
            wrong.append(f"{one['what']}: {one['late']:.2f} s late, recovered in {one['recovered']} s")
        if full and not refused:
            free = (folder / "free").read_text().split()
            wrong += ["no disk was full"] * ("0" not in free) + ["a disk is still full"] * (free[-1] == "0")
    if not (folder / "away").is_dir():
        wrong.append("a folder is away")
    lines = [json.loads(line)["step"] for line in (folder / "train.jsonl").read_text().splitlines()]
    if sum(two <= one for one, two in pairwise(lines)) > restarts or sorted(set(lines)) != list(range(max(lines) + 1)):
        wrong.append(f"not {restarts} restarts: {lines}")  # a start at a checkpoint repeats no step
    left = [pod.metadata.name for pod in cluster.pods(test)]
    return [*wrong, *(f"left: {name}" for name in left)]


def test_a_run_recovers_from_its_faults(cluster: Cluster) -> None:
    faults = [{"at": "step 3", "what": "freeze(1s)"}, {"at": "step 12", "what": "kill"}]
    test = add(cluster, "planned", *faults, steps=25)
    _, log = cluster.run(test)
    assert wrong_in(cluster, test, restarts=1) == [], log[-5000:]


@pytest.mark.skipif(not RUNS, reason="`make campaign NAME=faults-on-kubernetes` plays this")
def test_no_fault_is_doubled_or_forgotten_whatever_is_killed(
    cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """In each round a worker is killed after its first fault; the triggerer is, where the task has deferred.

    Beside each run is a pod with its labels but for the key of the run, as a second run of the test would have.
    """
    dags, chance, bad = tmp_path_factory.mktemp("dags"), random.Random(SEED), {}
    shutil.copy(PROJECT / "dags" / "ml_tests.py", dags)
    plans: dict[str, tuple[str, ...]] = {}
    for number in range(RUNS):
        kinds = (KINDS[number % len(KINDS)], chance.choice(KINDS))
        hosts: dict[str, Any] = ({}, {"hosts": 2}, {"job_set": {"slices": 2}})[number % 3]
        where = ["any", "coordinator", "host 1" if hosts else "host 0", "all"]
        at = (chance.randrange(12, 30), chance.randrange(60, 90))
        faults = [{"at": f"step {step}", "what": what, "where": "any" if "away" in what else chance.choice(where)}
                  for step, what in zip(at, kinds, strict=True)]  # fmt: skip
        if number in CASES:
            plans[add(cluster, f"run-{number}", *faults, steps=160, **hosts)] = kinds
    beside = add(cluster, "beside", steps=160)
    if not bounds_memory(cluster):
        print("this cluster does not bound volumes in memory: that `disk_full` is refused is all that is seen of it")
    environment = {
        **cluster.environment,
        **settings(short=True),
        "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
        "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
        "AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE": "True",
    }
    with standalone(cluster.home, heartbeat=30, **environment) as airflow:
        for first in range(0, len(plans), AT_ONCE):
            together = [*list(plans)[first : first + AT_ONCE], beside]
            runs = {test: airflow.trigger(test) for test in together if not airflow.wait_until_parsed(test)}
            others = {
                test: Innocent(cluster.core, cluster.access.namespace, test, partial(airflow.has_ended, test, run))
                for test, run in runs.items()
            }
            victim = chance.choice(together[:-1])
            wait_until(lambda test=victim: begun(cluster, test)[:1] not in ([], ["planned"]), f"a fault of {victim}")
            time.sleep(chance.uniform(0, 2))
            airflow.kill_now(victim, runs[victim], "run_workload")
            waiting = chance.choice(together[:-1])
            wait_until(
                lambda test=waiting, runs=runs: (
                    airflow.tasks(test, runs[test])["run_workload"]["state"] in {"deferred", "success", "failed"}
                ),
                f"{waiting} has deferred",
                600,
            )
            airflow.kill_service("triggerer")
            for test, run in runs.items():
                state = airflow.wait_until_ended(test, run, 900)
                restarts = sum(one not in LASTING for one in plans.get(test, ()))
                wrong = others[test].problems()
                wrong += wrong_in(cluster, test, restarts) if test != beside else wrong_beside(cluster)
                refused = "disk_full(2s)" in plans.get(test, ()) and not bounds_memory(cluster)
                if state != ("failed" if refused else "success") or wrong:
                    bad[test] = [state, *wrong]
                print(f"seed {SEED}: {test} {plans.get(test, '')}: {bad.get(test, 'right')}", flush=True)
    assert bad == {}
