"""deploy/helm and deploy/kubernetes-worker.yaml, compared with our list of keys, Airflow's options and the docs."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Any

import pytest
import yaml
from airflow.configuration import conf
from airflow.providers.cncf.kubernetes.pod_generator import PodGenerator

from airflow_home import PROJECT
from ml_metrics import TestDefinition, accelerator_test
from ml_metrics.separate_disks import folder_problems
from ml_metrics.settings import Settings

VALUES = yaml.safe_load((PROJECT / "deploy" / "helm" / "values.yaml").read_text())
KEYS = yaml.safe_load((PROJECT / "tests" / "fixtures" / "helm-chart-keys.yaml").read_text())
PAGE = (PROJECT / "docs" / "helm.md").read_text()
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
