"""Workloads in pods, through whole DAGs on the local cluster: several hosts, GKE, and the triggerer."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import yaml
from kubernetes import client

from airflow_home import Home
from workload_ends import core, recorded_workload

pytestmark = [pytest.mark.e2e]

PRINT_STEPS = """
import os, time
for step in range(2):
    print("host", os.environ["JOB_COMPLETION_INDEX"], "step", step, os.environ["ML_METRICS_FIRST_HOST"], flush=True)
    time.sleep(1)
"""


SECOND_HOST_FAILS = "import os, sys, time\nif os.environ['JOB_COMPLETION_INDEX'] == '1': sys.exit(3)\ntime.sleep(600)"
SECOND_HOST_RAISES = """
import os, time
if os.environ["JOB_COMPLETION_INDEX"] == "1":
    raise RuntimeError("the chip is hot")
time.sleep(600)
"""
PRINT = ["python3", "-c", "print('from the pod')"]
PRINT_AND_WAIT = ["python3", "-c", "import time; print('from the pod', flush=True); time.sleep(1)"]
"""Long enough for the cluster to measure its memory: without it, the run waits three minutes for Cloud Monitoring."""
DEFERRED = {"AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE": "True"}


@pytest.fixture(scope="module")
def outputs(home: Home) -> dict[str, tuple[int, str]]:
    """Run all tests, and return their exit codes and Airflow's output."""
    home.add_test("two-hosts", command=["python3", "-c", PRINT_STEPS], hosts=2)
    home.add_test("one-host-fails", command=["python3", "-c", SECOND_HOST_FAILS], hosts=3)
    home.add_test("queued", command=["true"], hosts=2, queue="tpu", startup_timeout="3s")
    home.add_test("two-hosts-deferred", command=["python3", "-c", PRINT_STEPS], hosts=2)
    home.add_test("pod-deferred", command=PRINT)
    home.add_test("host-raises-deferred", command=["python3", "-c", SECOND_HOST_RAISES], hosts=3)
    venv = home.path / "venv"
    (venv / "bin").mkdir(parents=True)
    (venv / "bin" / "python").symlink_to(Path(sys.executable).resolve())
    (venv / "pyvenv.cfg").write_text("home = /usr/bin\n")
    home.add_test("refused", command=[str(venv / "bin" / "python"), "-c", "1"])
    at_once = home.run_all(["two-hosts", "one-host-fails", "queued", "refused"])
    return {**at_once, **home.run_all(["two-hosts-deferred", "pod-deferred", "host-raises-deferred"], **DEFERRED)}


def test_a_refusal_of_the_local_cluster_names_the_setting(outputs: dict[str, tuple[int, str]]) -> None:
    code, log = outputs["refused"]
    assert code != 0
    assert "local_cluster_folders" in log


def test_the_hosts_of_a_workload_run_together_and_all_logs_are_stored(
    home: Home, outputs: dict[str, tuple[int, str]]
) -> None:
    code, log = outputs["two-hosts"]
    assert code == 0, log[-3000:]
    assert "host 0 step 1 127.0.0.1" in log, "the log of the first host is streamed"
    logs = sorted((home.runs / "two-hosts").glob("*/_ml_metrics/logs/*"))
    assert [one.name for one in logs] == ["attempt-1-host-0.log", "attempt-1-host-1.log"]
    assert logs[1].read_text().startswith("host 1 step 0")
    assert recorded_workload(home, "two-hosts")["status"] == "success"


def test_a_host_that_fails_ends_the_others_and_is_reported(home: Home, outputs: dict[str, tuple[int, str]]) -> None:
    assert outputs["one-host-fails"][0] == 1
    workload = recorded_workload(home, "one-host-fails")
    end = (workload["status"], workload["failure_reason"], workload["detail"])
    assert end == ("failure", "ExitCode:3", "host 1 of 3")


def test_a_host_that_fails_while_the_triggerer_waits_is_named_with_its_first_error(
    home: Home, outputs: dict[str, tuple[int, str]]
) -> None:
    code, log = outputs["host-raises-deferred"]
    workload = recorded_workload(home, "host-raises-deferred")
    end = (code, workload["status"], workload["failure_reason"], workload["detail"])
    assert end == (1, "failure", "ExitCode:1", "host 1 of 3: RuntimeError: the chip is hot"), log[-3000:]


def test_hosts_that_no_queue_admits_are_missed(home: Home, outputs: dict[str, tuple[int, str]]) -> None:
    assert outputs["queued"][0] == 1
    workload = recorded_workload(home, "queued")
    assert (workload["status"], workload["failure_reason"], workload["started_at"]) == ("missed", "Queued", None)


@pytest.mark.parametrize(("test", "line"), [("two-hosts-deferred", "host 0 step 1"), ("pod-deferred", "from the pod")])
def test_the_triggerer_waits_for_hosts_and_for_pods(
    home: Home, outputs: dict[str, tuple[int, str]], test: str, line: str
) -> None:
    code, log = outputs[test]
    assert code == 0, log[-3000:]
    assert line in log
    assert recorded_workload(home, test)["status"] == "success"


def test_no_pods_jobs_or_services_remain(home: Home, outputs: dict[str, tuple[int, str]]) -> None:
    assert outputs
    assert remaining(home) == []


GOOGLE = """
# airflow dag: only Google's responses are replaced here; everything else is the provider's own access to GKE
from airflow.providers.google.cloud.hooks.kubernetes_engine import GKEKubernetesHook
from airflow.providers.google.cloud.operators import kubernetes_engine
from google.oauth2.credentials import Credentials
from ml_metrics.airflow.dags import tests_from

kubernetes_engine.GKEClusterAuthDetails.fetch_cluster_info = lambda _: ({server!r}, {authority!r})
GKEKubernetesHook.get_credentials = lambda _: Credentials({token!r})
for dag in tests_from():
    globals()[dag.dag_id] = dag
"""


def test_tests_run_on_their_own_gke_cluster(home: Home, tmp_path: Path) -> None:
    kubeconfig = yaml.safe_load(Path(home.local_cluster().ensure_running()).read_text())
    cluster, user = kubeconfig["clusters"][0]["cluster"], kubeconfig["users"][0]["user"]
    dag_file = GOOGLE.format(
        server=cluster["server"], authority=cluster["certificate-authority-data"], token=user["token"]
    )
    (tmp_path / "gke_tests.py").write_text(dag_file)
    gke = {"project": "a-project", "location": "us-central1-a", "name": "tests"}
    for name, hosts in (("gke-pod", 1), ("gke-job", 2)):
        home.add_test(name, command=PRINT_AND_WAIT, hosts=hosts, cluster=gke)
    outputs = home.run_all(
        ["gke-pod", "gke-job"],
        AIRFLOW__CORE__DAGS_FOLDER=str(tmp_path),
        AIRFLOW__ML_METRICS__CLUSTER="kubernetes",
        AIRFLOW_CONN_GOOGLE_CLOUD_DEFAULT="google-cloud-platform://",
    )
    for name, kind in (("gke-pod", "pod"), ("gke-job", "job")):
        code, log = outputs[name]
        assert code == 0, log[-5000:]
        assert "from the pod" in log
        workload = recorded_workload(home, name)
        assert workload["status"] == "success"
        assert f"/kubernetes/{kind}/us-central1-a/tests/default/" in workload["workload_link"]
        assert workload["logs_command"].startswith("gcloud logging read ")
        assert workload["pod"] in workload["logs_command"]
    assert remaining(home) == []


def remaining(home: Home) -> list[str]:
    """Return the names of the Jobs, services and pods that were not deleted."""
    api = core(home)
    found = [
        *client.BatchV1Api(api.api_client).list_namespaced_job("default").items,
        *api.list_namespaced_service("default").items,
        *api.list_namespaced_pod("default").items,
    ]
    return [one.metadata.name for one in found if one.metadata.deletion_timestamp is None]
