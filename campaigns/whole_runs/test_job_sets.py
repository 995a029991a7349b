"""Workloads of several Jobs, through whole DAGs: JobSets, whose controller is a stand-in before the local cluster.

`make test` plays one of them, `make campaign NAME=ends` all.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest

from airflow_home import Home
from servers.job_sets import JobSets, condition, job_sets
from standalone_airflow import wait_until
from workload_ends import recorded_workload

pytestmark = [pytest.mark.e2e]
CAMPAIGN = bool(os.environ.get("ML_METRICS_ENDS"))
IN_CAMPAIGN = pytest.mark.skipif(not CAMPAIGN, reason="`make campaign NAME=ends` plays this")

SHOW = """
import os
names = ("ML_METRICS_SLICE", "JOB_COMPLETION_INDEX", "ML_METRICS_SLICES", "ML_METRICS_HOSTS")
print("slice {} host {} of {} slices with {} hosts".format(*(os.environ[name] for name in names)))
"""
LAST_BREAKS = """
import os, time
if os.environ["ML_METRICS_SLICE"] == "1" and os.environ["JOB_COMPLETION_INDEX"] == "1":
    raise RuntimeError("the link is down")
time.sleep(600)
"""
LAST_BREAKS_ONCE = """
import os, sys
if os.environ["ML_METRICS_SLICE"] == "1" and os.environ["JOB_COMPLETION_INDEX"] == "1":
    seen = os.environ["MODEL_DIR"] + "/seen"
    if not os.path.exists(seen):
        open(seen, "w").close()
        sys.exit(7)
"""
Ended = dict[str, tuple[int, str]]


@dataclass(frozen=True)
class Cluster:
    """The JobSets of the cluster, and the environment in which Airflow uses it."""

    job_sets: JobSets
    environment: dict[str, str]


@pytest.fixture(scope="module")
def cluster(home: Home) -> Iterator[Cluster]:
    with job_sets(home.local_cluster().ensure_running()) as (served, kubeconfig):
        (home.path / "kubeconfig").write_text(json.dumps(kubeconfig))
        (home.path / "kubeconfig").chmod(0o600)
        extra = {"kube_config_path": str(home.path / "kubeconfig"), "namespace": "default"}
        connection = json.dumps({"conn_type": "kubernetes", "extra": extra})
        yield Cluster(
            served, {"AIRFLOW__ML_METRICS__CLUSTER": "kubernetes", "AIRFLOW_CONN_KUBERNETES_DEFAULT": connection}
        )


@pytest.fixture(scope="module")
def ended(home: Home, cluster: Cluster) -> Ended:
    def add(name: str, program: str, **more: Any) -> str:
        options = {"slices": 2, **more.pop("job_set", {})}
        return home.add_test(name, command=["python3", "-c", program], hosts=2, job_set=options, **more)

    plain = [
        add("shows", SHOW, job_set={"exclusive": "cloud.google.com/gke-nodepool"}),
        add("restarts", LAST_BREAKS_ONCE, job_set={"restarts": 1}),
        add("not-admitted", SHOW, queue="tpu", startup_timeout="3s"),
    ]
    ends = home.run_all(plain, **cluster.environment) if CAMPAIGN else {}
    deferred = {**cluster.environment, "AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE": "True"}
    return {**ends, **home.run_all([add("breaks", LAST_BREAKS)], **deferred)}


@IN_CAMPAIGN
def test_the_hosts_of_all_slices_are_one_workload(home: Home, cluster: Cluster, ended: Ended) -> None:
    code, log = ended["shows"]
    assert code == 0, log[-3000:]
    (folder,) = (home.runs / "shows").glob("*/_ml_metrics/logs")
    logs = {file.name: file.read_text() for file in folder.iterdir()}
    places = ((0, 0), (0, 1), (1, 0), (1, 1))
    assert logs == {
        f"attempt-1-host-{number}.log": f"slice {part} host {host} of 2 slices with 4 hosts\n"
        for number, (part, host) in enumerate(places)
    }
    assert cluster.job_sets.objects == {}, "nothing is left"


def test_a_failure_names_the_host_among_all_slices(home: Home, ended: Ended) -> None:
    assert ended["breaks"][0] == 1
    workload = recorded_workload(home, "breaks")
    end = (workload["status"], workload["failure_reason"], workload["detail"])
    assert end == ("failure", "ExitCode:1", "host 3 of 4: RuntimeError: the link is down"), ended["breaks"][1][-3000:]


@IN_CAMPAIGN
def test_a_job_set_restarts_within_one_attempt(home: Home, ended: Ended) -> None:
    assert ended["restarts"][0] == 0, ended["restarts"][1][-3000:]
    workload = recorded_workload(home, "restarts")
    assert (workload["status"], workload["attempts"]) == ("success", 1)


@IN_CAMPAIGN
def test_a_job_set_that_its_queue_does_not_admit_was_missed(home: Home, ended: Ended) -> None:
    assert ended["not-admitted"][0] == 1
    workload = recorded_workload(home, "not-admitted")
    assert (workload["status"], workload["failure_reason"]) == ("missed", "Queued"), workload
    assert workload["detail"] == "not admitted by the queue tpu yet"


@IN_CAMPAIGN
def test_a_job_set_that_loses_its_hosts_to_another_was_preempted(home: Home, cluster: Cluster) -> None:
    test = home.add_test(
        "preempted",
        command=["sleep", "600"],
        hosts=1,
        job_set={"slices": 2},
        queue="tpu",
        startup_timeout="20s",
    )
    with ThreadPoolExecutor(1) as background:
        running = background.submit(home.airflow, "dags", "test", test, **cluster.environment)
        wait_until(lambda: bool(cluster.job_sets.objects) or running.done(), "the JobSet is created")
        assert not running.done(), recorded_workload(home, test)
        (name,) = cluster.job_sets.objects
        cluster.job_sets.suspend(name, value=False)
        log = home.runs / test

        def started() -> bool:
            jobs = cluster.job_sets._jobs.list_namespaced_job("default").items
            return len(jobs) == 2 and all(job.status.active for job in jobs) and log.exists()

        wait_until(started, "the hosts run")
        message = "Preempted to accommodate a workload with a higher priority"
        cluster.job_sets.workloads.append({"status": {"conditions": [condition("Evicted", "Preempted", message)]}})
        cluster.job_sets.suspend(name, value=True)
        running.result()
    cluster.job_sets.workloads.clear()
    workload = recorded_workload(home, test)
    end = (workload["status"], workload["failure_reason"], workload["detail"])
    assert end == ("failure", "Preempted", message)


@IN_CAMPAIGN
def test_a_cluster_without_job_sets_is_named(home: Home) -> None:
    test = home.add_test("no-api", command=["true"], hosts=2, job_set={"slices": 2})
    home.run_all([test])
    workload = recorded_workload(home, test)
    assert (workload["status"], workload["failure_reason"]) == ("missed", "Config"), workload
    assert "install the JobSet controller" in workload["detail"]
