"""The objects that the operators create: those that `ml-metrics render` prints, with the folder of the run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest

from ml_metrics import TestDefinition
from ml_metrics.airflow.clusters.manifests import RUN_FOLDER_ANNOTATION, job, pod
from ml_metrics.airflow.operators.run import RUN_KEY, folder_of
from ml_metrics.airflow.operators.run_workload import HOSTNAME, RunWorkload
from ml_metrics.airflow.versions import AirflowFailException
from ml_metrics.config.params import pinned_node
from ml_metrics.core.model import JobStatus, Workload
from ml_metrics.pipeline.experiments import conf_of
from ml_metrics.store.run_folder import RunFolder
from unit.airflow.operators.running import context_of, prepared

NEWEST = kubernetes_validate.latest_version()
LABEL = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?")
EVERYTHING: dict[str, Any] = {
    "name": "everything",
    "image": "image:{{ params.tag }}",
    "params": {"tag": "v1"},
    "command": ["train", "--out=$(MODEL_DIR)"],
    "owner": "Vision Team <vision@example.com>" + "x" * 80,
    "accelerator": "h100x8",
    "env": {"WHERE": "$(MODEL_DIR)/checkpoints"},
    "secrets": {"TOKEN": "a-secret/a-key"},
    "config_maps": ["settings"],
    "resources": {"cpu": 2, "memory": "4Gi"},
    "namespace": "tests",
    "service_account": "runner",
    "labels": {"team": "vision"},
    "annotations": {"note": "any text: at all"},
    "volumes": {"/dev/shm": {"memory": "1Gi"}, "/data": {"claim": "data", "read_only": True}},
    "image_pull_secrets": ["registry"],
    "init_containers": [{"name": "fetch", "image": "fetch"}],
    "priority_class": "nightly",
    "pod": {
        "metadata": {"annotations": {"own": "words"}, "labels": {"own": "label"}},
        "spec": {
            "priorityClassName": "overridden",
            "hostNetwork": True,
            "dnsPolicy": "ClusterFirstWithHostNet",
            "automountServiceAccountToken": False,
            "securityContext": {"fsGroup": 1000},
            "terminationGracePeriodSeconds": 120,
            "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["data"]}],
            "affinity": {"nodeAffinity": {}},
            "containers": [
                {
                    "name": "base",
                    "tty": True,
                    "imagePullPolicy": "Always",
                    "terminationMessagePolicy": "FallbackToLogsOnError",
                    "securityContext": {"privileged": True},
                    "ports": [{"containerPort": 8471}],
                }
            ],
        },
    },
}


@pytest.fixture
def context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    (tmp_path / "policy.yaml").write_text("{host_network: true, privileged: true}")
    monkeypatch.setenv("AIRFLOW__ML_METRICS__POLICY", str(tmp_path / "policy.yaml"))
    return context_of("everything", tmp_path, monkeypatch)


def test_a_trial_runs_on_the_node_of_the_trials_before(context: Any) -> None:
    context["dag_run"].conf = conf_of("image", "app:1", "gke-a-1")
    test = TestDefinition.model_validate({"name": "t", "image": "i", "command": ["x"], "node_selector": {"pool": "a"}})
    operator = prepared(test, context)
    assert operator.request(context, "t-1")["spec"]["nodeSelector"] == {"pool": "a", HOSTNAME: "gke-a-1"}


@pytest.mark.parametrize(
    ("conf", "params", "node"),
    [
        (conf_of("image", "app:1", "gke-a-1"), (), "gke-a-1"),
        (conf_of("image", "app:1"), (), ""),
        ({"trial_node": "n1"}, (), ""),
        ({"trial": "no", "trial_node": "n1"}, (), ""),
        ({"trial": "yes", "trial_node": "n1"}, ("trial",), ""),
        ({"trial": "yes", "trial_node": "n1"}, ("trial_node",), ""),
        ({"trial": "yes", "trial_node": "n1\n"}, (), ""),
        ({"trial": "yes", "trial_node": "-n1"}, (), ""),
        ({"trial": "yes", "trial_node": ["n1"]}, (), ""),
    ],
)
def test_only_trials_are_kept_on_a_node(conf: dict[str, Any], params: tuple[str, ...], node: str) -> None:
    assert pinned_node(conf, params) == node


def test_the_pod_is_the_one_that_render_prints(context: Any) -> None:
    test = TestDefinition.model_validate(EVERYTHING)
    operator = prepared(test, context)
    made = operator.request(context, "everything-1")
    kubernetes_validate.validate(made, NEWEST, strict=True)
    folder = context["pushed"]["run_folder"]
    key = Path(folder).name
    printed = pod(test, run_dir=folder, env={"JOB_NAME": f"everything-{key[:8]}"})
    (container,), (expected,) = made["spec"].pop("containers"), printed["spec"].pop("containers")
    assert {name: made["spec"][name] for name in printed["spec"]} == printed["spec"]
    assert container["image"] == "image:v7", "parameters are filled in"
    assert {name: container[name] for name in expected} == {**expected, "image": "image:v7"}
    assert (made["spec"]["priorityClassName"], container["tty"]) == ("overridden", True), "a person has the last word"
    assert {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "a-secret", "key": "a-key"}}} in container["env"]
    labels = made["metadata"]["labels"]
    assert {**printed["metadata"]["labels"], RUN_KEY: key}.items() <= labels.items()
    assert [value for value in labels.values() if not LABEL.fullmatch(value)] == []


def test_the_job_is_the_one_that_render_prints(context: Any) -> None:
    test = TestDefinition.model_validate({**EVERYTHING, "hosts": 2, "queue": "gpu", "retries": 2})
    operator = prepared(test, context)
    made = operator.request(context, "job-everything-1")
    kubernetes_validate.validate(made, NEWEST, strict=True)
    folder = RunFolder(context["pushed"]["run_folder"])
    key = Path(folder.path).name
    printed = job(test, name="job-everything-1", run_dir=folder.path, env={"JOB_NAME": f"everything-{key[:8]}"})
    assert made["metadata"]["name"] == "job-everything-1"
    assert made["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "gpu"
    template = made["spec"].pop("template")
    expected = printed["spec"].pop("template")
    assert made["spec"] == {**printed["spec"], "backoffLimit": 0}, "Airflow starts the next attempt"
    assert template["spec"]["subdomain"] == "job-everything-1", "its hosts find each other through this service"
    assert "kueue.x-k8s.io/queue-name" not in template["metadata"]["labels"]
    assert template["metadata"]["labels"][RUN_KEY] == key
    (container,), (said,) = template["spec"].pop("containers"), expected["spec"].pop("containers")
    assert {name: template["spec"][name] for name in expected["spec"]} == expected["spec"]
    assert {name: container[name] for name in said} == {**said, "image": "image:v7"}


@pytest.mark.parametrize("hosts", [1, 2])
def test_a_cleared_run_that_had_succeeded_gets_the_folder_of_its_next_generation(hosts: int, context: Any) -> None:
    test = TestDefinition.model_validate({**EVERYTHING, "accelerator": "cpu", "hosts": hosts})
    folder_of("everything", context).write_workload(Workload(JobStatus.SUCCESS))
    made = prepared(test, context).request(context, "everything-1")
    spec = made["spec"]["template"] if hosts > 1 else made
    env = {one["name"]: one.get("value") for one in spec["spec"]["containers"][0]["env"]}
    wanted = f"{context['pushed']['run_folder']}/_ml_metrics/generation-2"
    assert env["MODEL_DIR"] == env["ML_METRICS_RUN_DIR"] == wanted
    assert spec["metadata"]["annotations"][RUN_FOLDER_ANNOTATION] == wanted


def test_a_document_of_a_later_version_fails_the_task_without_retries(
    context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as later:
        later.setattr("ml_metrics.store.documents.FORMAT", 2)
        folder_of("everything", context).write("attempts", {"round": 3, "first_attempt": 1, "created": 1})
    operator = RunWorkload(task_id="run_workload", test=TestDefinition.model_validate(EVERYTHING))
    with pytest.raises(AirflowFailException, match=r"attempts\.json: is a document of version 2"):
        operator.execute(context)
