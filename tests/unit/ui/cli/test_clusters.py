"""`ml-metrics clusters`, with Kubernetes' client against a server on loopback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubeconfigs import kubeconfig
from ml_metrics.airflow.clusters.permissions import PERMISSIONS, PERMISSIONS_OF_FAULTS
from ml_metrics.ui.cli import main
from servers.access_reviews import AccessReviews
from servers.ports import free_port
from unit.airflow.clusters.test_node_pools import node
from unit.ui.cli.shell import Shell

PLUGINS = Path(__file__).parents[4] / "plugins"


@pytest.fixture
def cluster() -> Iterator[AccessReviews]:
    server = AccessReviews()
    yield server
    server.stop()


@pytest.fixture(autouse=True)
def connections(cluster: AccessReviews, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two clusters: `lab` is the server on loopback, `tpus` is on GKE."""
    clusters = {
        "lab": {"kubernetes_conn_id": "lab", "namespace": "ml-metrics"},
        "tpus": {"project": "p", "location": "l", "use_dns_endpoint": True, "impersonation_chain": "a@p.iam.x.com"},
    }
    (tmp_path / "clusters.yaml").write_text(yaml.safe_dump({"clusters": clusters}))
    monkeypatch.setenv("AIRFLOW__ML_METRICS__CLUSTERS", str(tmp_path / "clusters.yaml"))
    monkeypatch.setenv("AIRFLOW_CONN_LAB", connection_to(cluster.url))


def connection_to(address: str) -> str:
    document = json.dumps(kubeconfig({"server": address}))
    return json.dumps({"conn_type": "kubernetes", "extra": {"kube_config": document}})


def checked(capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, dict[str, Any]]:
    code = main(["clusters", "check", "lab", "--json", *options])
    (found,) = json.loads(capsys.readouterr().out)["clusters"]
    return code, found


def test_every_permission_of_the_role_is_asked_for(cluster: AccessReviews, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = checked(capsys)
    assert (code, found["usable"], found["missing"]) == (0, True, [])
    assert (found["user"], found["namespace"], found["server"]) == (cluster.user, "ml-metrics", cluster.url)
    asked = [
        (one["verb"], "/".join(filter(None, (one["resource"], one.get("subresource")))), one.get("group", ""))
        for one in cluster.asked
    ]
    assert asked == [(one.verb, one.resource, one.group) for one in (*PERMISSIONS, *PERMISSIONS_OF_FAULTS)]
    assert {one["namespace"] for one in cluster.asked} == {"ml-metrics"}
    assert cluster.authorization == {"Bearer the-token"}


def test_the_task_of_another_dag_can_ask(
    cluster: AccessReviews, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("_AIRFLOW_PARSING_CONTEXT_DAG_ID", "ml-metrics-doctor")
    monkeypatch.setenv("_AIRFLOW_PARSING_CONTEXT_TASK_ID", "doctor")
    code, found = checked(capsys)
    assert (code, found["user"]) == (0, cluster.user)


def test_another_namespace_can_be_asked_about(cluster: AccessReviews, capsys: pytest.CaptureFixture[str]) -> None:
    assert checked(capsys, "--namespace", "other")[1]["namespace"] == "other"
    assert {one["namespace"] for one in cluster.asked} == {"other"}


def test_what_is_missing_is_named_by_who_needs_it(cluster: AccessReviews, ml: Shell) -> None:
    cluster.denied = {"get pods/log", "create jobs", "list nodes", "create pods/eviction"}
    assert ml("clusters", "check", "lab", code=1) == (
        f"lab: Kubernetes v1.33.1-gke.1 at {cluster.url}\n"
        "  Airflow is   tests@p.iam.gserviceaccount.com\n"
        "  namespace    ml-metrics\n"
        "  missing      get pods/log\n"
        "  for several hosts also missing: create jobs\n"
        "  what to do   grant the Role of docs/kubernetes.md in ml-metrics to that user\n"
        "  faults       not possible: evict: may not create pods/eviction; drain (it would need `patch nodes`), "
        "no_network (it would need `create networkpolicies`)\n"
        "  nodes        unknown: Airflow may not list nodes, which no test needs\n"
    )


def test_node_pools_are_read_page_by_page(cluster: AccessReviews, ml: Shell) -> None:
    cluster.nodes = [node("a"), node("b", ready="False"), node("a"), node("a"), node("b")]
    lines = ml("clusters", "check", "lab").splitlines()
    assert lines[-2:] == [
        "  nodes        a: 3 nodes, 3 ready, -, 4 x accelerator each",
        "               b: 2 nodes, 1 ready, -, 4 x accelerator each",
    ]


def test_an_older_cluster_tells_less(cluster: AccessReviews, capsys: pytest.CaptureFixture[str]) -> None:
    cluster.absent = {"selfsubjectreviews", "selfsubjectaccessreviews", "nodes"}
    code, found = checked(capsys)
    assert (code, found["user"], found["missing"], found["node_pools"]) == (0, None, None, None)


@pytest.mark.parametrize(
    ("status", "what"), [(401, "the credentials are not accepted: HTTP 401 Unauthorized"), (500, "HTTP 500")]
)
def test_a_refusal_is_named_without_what_it_says(
    status: int, what: str, cluster: AccessReviews, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.status = status
    assert main(["clusters", "check", "lab"]) == 1
    printed = capsys.readouterr()
    assert printed.out.startswith(f"lab: cannot be used: {what}")
    assert "hunter2" not in printed.out + printed.err
    assert "the-token" not in printed.out + printed.err


def test_a_server_that_hangs_ends_with_the_time(cluster: AccessReviews, capsys: pytest.CaptureFixture[str]) -> None:
    cluster.hangs = True
    code, found = checked(capsys, "--timeout", "1")
    assert (code, found["problem"]) == (1, "no answer within 1 seconds: is its address reachable from here?")


def test_no_server_is_an_answer_in_time(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_LAB", connection_to(f"http://127.0.0.1:{free_port()}"))
    code, found = checked(capsys, "--timeout", "5")
    assert code == 1
    assert "Connection refused" in found["problem"]


def test_one_bad_cluster_does_not_hide_another(ml: Shell) -> None:
    """The connection to Google Cloud is not defined here."""
    lab, tpus = ml.json("clusters", "check", code=1)["clusters"]
    assert (lab["cluster"], lab["usable"]) == ("lab", True)
    assert (tpus["cluster"], tpus["usable"]) == ("tpus", False)
    assert "google_cloud_default" in tpus["problem"]


def test_clusters_are_shown_with_their_connections(ml: Shell) -> None:
    lines = ml("clusters").splitlines()
    assert lines[1].split() == ["lab", "connection", "lab", "ml-metrics"]
    assert "GKE p/l/tpus, DNS endpoint, by google_cloud_default as a@p.iam.x.com" in lines[2]
    lab, tpus = ml.json("clusters")["clusters"]
    assert lab["kubernetes_conn_id"] == "lab"
    assert (tpus["cluster"], tpus["name"], tpus["use_dns_endpoint"]) == ("tpus", "tpus", True)


@pytest.mark.parametrize(
    ("argv", "what"),
    [
        (["check", "lba"], "NAME: no cluster 'lba'"),
        (["chekc"], "invalid choice: 'chekc'"),
        (["check", "lab", "--namespace", "../x"], "is not the name of a namespace"),
        (["check", "--timeout", "0"], "whole number from 1 to 600"),
    ],
)
def test_a_mistake_is_wrong_usage(argv: list[str], what: str, ml: Shell) -> None:
    assert what in ml("clusters", *argv, code=2)


def test_on_gke_the_operators_connection_is_checked(cluster: AccessReviews, monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.providers.google.cloud.hooks.kubernetes_engine import GKEKubernetesHook
    from google.auth.credentials import AnonymousCredentials

    from ml_metrics.airflow.operators.gke import RunWorkloadOnGke

    made: list[Any] = []

    def info(operator: Any) -> tuple[str, str]:
        made.append(operator)
        return cluster.url, "Y2E="

    credentials = AnonymousCredentials()
    credentials.token = "of-google"
    monkeypatch.setenv("AIRFLOW_CONN_GOOGLE_CLOUD_DEFAULT", "google-cloud-platform://")
    monkeypatch.setattr(RunWorkloadOnGke, "cluster_info", property(info))
    monkeypatch.setattr(GKEKubernetesHook, "get_credentials", lambda _: credentials)
    assert main(["clusters", "check", "tpus"]) == 0
    assert cluster.authorization == {"Bearer of-google"}
    assert made[0].use_dns_endpoint is True
    assert made[0].impersonation_chain == ["a@p.iam.x.com"]


def test_what_airflow_logs_is_not_part_of_the_document(cluster: AccessReviews, tmp_path: Path) -> None:
    """In a process of its own, in which Airflow's log goes to standard output, at its most talkative level."""
    environment = {**os.environ, "AIRFLOW__LOGGING__LOGGING_LEVEL": "DEBUG", "PYTHONPATH": str(PLUGINS)}
    command = [sys.executable, "-m", "ml_metrics.ui.cli", "clusters", "check", "lab", "--json"]
    done = subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["clusters"][0]["user"] == cluster.user
    assert "the-token" not in done.stdout + done.stderr
