"""deploy/helm and deploy/kubernetes-worker.yaml, compared with our list of keys, Airflow's options and the docs."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import yaml
from airflow.configuration import conf
from airflow.providers.cncf.kubernetes.pod_generator import PodGenerator

from airflow_home import PROJECT
from campaigns.kubernetes.access import documented_role
from ml_metrics import TestDefinition, accelerator_test
from ml_metrics.config import policy as airflow_namespace
from ml_metrics.config.clusters import namespace_of
from ml_metrics.config.loading import load_file
from ml_metrics.config.problems import InvalidFileError
from ml_metrics.core.settings import Settings
from ml_metrics.store.disks import folder_problems

VALUES = yaml.safe_load((PROJECT / "deploy" / "helm" / "values.yaml").read_text())
KEYS = yaml.safe_load((PROJECT / "tests" / "fixtures" / "helm-chart-keys.yaml").read_text())
PAGE = (PROJECT / "docs" / "kubernetes.md").read_text().partition("\n## With Helm\n")[2]
TYPES = {"string": str, "boolean": bool, "integer": int, "object": dict, "array": list}
SETTINGS = {field.name for field in fields(Settings)}
WHOLE = {key for key, kind in KEYS.items() if kind in {"object", "array"}}


def flat(values: dict[str, Any], above: str = "") -> dict[str, Any]:
    """Return the values by their keys with dots, down to those that the chart passes on as they are."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        key = f"{above}{name}"
        found |= flat(value, f"{key}.") if isinstance(value, dict) and key not in WHOLE else {key: value}
    return found


def test_the_values_use_the_keys_of_our_list_with_their_types() -> None:
    used = flat(VALUES)
    assert set(used) == set(KEYS)
    assert {key for key, value in used.items() if type(value) is not TYPES[KEYS[key]]} == set()


def test_the_configuration_consists_of_options_that_exist_and_are_strings() -> None:
    for section, options in VALUES["config"].items():
        known = (
            SETTINGS if section == "ml_metrics" else conf.configuration_description.get(section, {}).get("options", {})
        )
        if section == "celery":
            continue  # its provider is part of Airflow's image, not of this environment
        assert set(options) <= set(known), section
    assert all(isinstance(value, str) for options in VALUES["config"].values() for value in options.values())


@pytest.mark.parametrize("executor", ["CeleryExecutor", "KubernetesExecutor", "CeleryExecutor,KubernetesExecutor"])
def test_no_setting_names_a_folder_on_the_disk_of_one_pod(executor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__EXECUTOR", executor)
    for name, value in VALUES["config"]["ml_metrics"].items():
        monkeypatch.setenv(f"AIRFLOW__ML_METRICS__{name.upper()}", value)
    assert folder_problems(Settings.load()) == ()
    assert executor in PAGE
    monkeypatch.setenv("AIRFLOW__ML_METRICS__STORAGE_ROOT", "/opt/airflow/runs")
    assert len(folder_problems(Settings.load())) == 1


def test_the_cluster_policy_gives_one_test_the_other_executor() -> None:
    (policy,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {}
    exec(policy, names)
    for test, executors in {"hello-cpu": {"KubernetesExecutor"}, "other": {None}}.items():
        dag = accelerator_test(TestDefinition(name=test, image="python:3.11", command=("true",), owner="a-new-user"))
        for task in dag.tasks:
            names["task_policy"](task)
        assert {task.executor for task in dag.tasks} == executors


def test_the_docs_make_every_secret_that_the_values_name() -> None:
    named = {VALUES[key] for key in ("fernetKeySecretName", "jwtSecretName", "apiSecretKeySecretName")}
    named |= {VALUES["data"]["metadataSecretName"], *(one["secretName"] for one in VALUES["secret"])}
    assert set(re.findall(r"kubectl create secret generic (\S+)", PAGE)) == named
    for one in VALUES["secret"]:
        assert f"--from-literal={one['secretKey']}=" in PAGE


def test_the_image_has_the_versions_of_the_values() -> None:
    dockerfile = (PROJECT / "deploy" / "helm" / "Dockerfile").read_text()
    version = VALUES["airflowVersion"]
    assert f"apache-airflow=={version}\n" in (PROJECT / "requirements.txt").read_text()
    assert dockerfile.count(version) == 2
    assert f"FROM apache/airflow:{version}-python3.11\n" in dockerfile


def test_airflow_reads_the_template_of_worker_pods() -> None:
    file = PROJECT / "deploy" / "kubernetes-worker.yaml"
    pod = PodGenerator.deserialize_model_file(str(file))
    assert pod.spec.containers[0].name == "base", "Airflow adds the task to the container of this name"
    assert pod.spec.restart_policy == "Never"
    assert "deploy/kubernetes-worker.yaml" in PAGE
    assert pod.spec.containers[0].env_from[0].secret_ref.name in PAGE


def test_workloads_have_a_namespace_without_airflows_secrets_where_airflow_has_the_role_of_the_docs() -> None:
    namespace, role, binding = yaml.safe_load_all((PROJECT / "deploy" / "kubernetes-workloads.yaml").read_text())
    airflows = set(re.findall(r"--namespace (\S+)", PAGE)) | set(re.findall(r"kubectl create namespace (\S+)", PAGE))
    name = namespace["metadata"]["name"]
    assert airflows == {"airflow"} != {name}
    assert VALUES["config"]["ml_metrics"]["namespace"] == name
    assert {one["metadata"]["namespace"] for one in (role, binding)} == {name}
    assert role["rules"] == documented_role()["rules"]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    accounts = {one["name"] for one in binding["subjects"]}
    worker = yaml.safe_load((PROJECT / "deploy" / "kubernetes-worker.yaml").read_text())
    assert accounts == {"airflow-worker", "airflow-triggerer", worker["spec"]["serviceAccountName"]}
    assert {one["namespace"] for one in binding["subjects"]} == airflows
    assert "kubectl apply -f deploy/kubernetes-workloads.yaml" in PAGE
    celery = VALUES["executor"] == "CeleryExecutor"
    assert VALUES["allowPodLaunching"] is not celery, "Celery's workers start no pod beside Airflow"


@pytest.mark.parametrize("executor", ["CeleryExecutor", "KubernetesExecutor"])
def test_with_the_values_no_test_file_reaches_airflows_secrets(
    executor: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a pod of the chart, which also states the namespace of KubernetesExecutor's pods."""
    (tmp_path / "namespace").write_text("airflow")
    monkeypatch.setattr(airflow_namespace, "OF_THIS_POD", tmp_path / "namespace")
    monkeypatch.setenv("AIRFLOW__CORE__EXECUTOR", executor)
    monkeypatch.setenv("AIRFLOW__KUBERNETES_EXECUTOR__NAMESPACE", "airflow")
    for name, value in VALUES["config"]["ml_metrics"].items():
        monkeypatch.setenv(f"AIRFLOW__ML_METRICS__{name.upper()}", value)
    secret = f"{VALUES['fernetKeySecretName']}/fernet-key"
    test = {"name": "t", "image": "i", "command": ["c"], "secrets": {"F": secret}, "service_account": "airflow-worker"}
    (tmp_path / "t.yaml").write_text(json.dumps(test))
    (loaded,) = load_file(tmp_path / "t.yaml", tmp_path).tests
    assert namespace_of(loaded) == "workloads", "where there are no such Secret and account"
    (tmp_path / "t.yaml").write_text(json.dumps({**test, "namespace": "airflow"}))
    with pytest.raises(InvalidFileError) as error:
        load_file(tmp_path / "t.yaml", tmp_path)
    assert {problem.path for problem in error.value.problems} == {"namespace", "secrets.F", "service_account"}
